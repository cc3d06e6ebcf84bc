"""Formulas of the defences against naive loops, and what they refuse."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from discreet import defences
from discreet.defences._clipped import by_layer, by_sample
from discreet.defences._gradients import plain
from discreet.defences._objective import objective
from discreet.defences.advreg import NAME, AdvReg, _Attack, _Network
from discreet.defences.augment import Augment
from discreet.defences.dmp import DMP
from discreet.defences.dpsgd import DPSGD, _Noisy, epsilon, fixed_masks
from discreet.defences.hamp import true_share
from discreet.initial import initialise
from discreet.losses import LOSSES
from discreet.measure import logits
from discreet.mlp import MLP
from discreet.model_seeds import init_seed
from discreet.phase import Phase, Teacher, fresh_phase, run
from discreet.recipe import Recipe
from discreet.roles import deal
from discreet.sparse import Plan, draw_masks, maskable
from discreet.sparse.counts import counts
from discreet.training import train
from discreet.training_paths import Batch, Epoch
from tests.compression import NETWORK, SIZES, Drifting, samples, setting, without_reference


def batch(classes: int = 4, size: int = 7, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    outputs = 2 * torch.randn(size, max(1, classes) if classes > 2 else 1, generator=generator).double()
    return outputs, torch.randint(0, classes, (size,), generator=generator)


def loss_of(name: str, task: str = "ce", **changes: Any) -> Any:
    phase = fresh_phase(setting(task=task, **changes))
    phase = replace(phase, teacher=Teacher(NETWORK, NETWORK.init([0, 1])))
    return objective(defences.parse(name).apply(phase))


def two(outputs: Tensor) -> Tensor:
    """Logits of both classes."""
    return torch.cat([torch.zeros_like(outputs), outputs], 1) if outputs.shape[1] == 1 else outputs


def naive_entropy(row: Tensor) -> float:
    p = row.softmax(0).tolist()
    return -sum(each * math.log(each) for each in p)


@pytest.mark.parametrize("task", ["ce", "bce"])
@pytest.mark.parametrize("seed", range(5))
def test_re1_and_re2_are_equations_8_and_9(task: str, seed: int) -> None:
    outputs, y = batch(4 if task == "ce" else 2, seed=seed)
    plain_loss = float(LOSSES[task].per_sample(outputs, y.double() if task == "bce" else y).mean())
    entropies = [naive_entropy(row) for row in two(outputs)]
    wrong = [
        e for e, row, label in zip(entropies, two(outputs), y, strict=True) if int(row.argmax()) != int(label)
    ]
    re1, re2 = (float(loss_of(name, task)(outputs, y).mean()) for name in ("re1(beta=0.1)", "re2(beta=0.3)"))
    assert re1 == pytest.approx(plain_loss - 0.1 * sum(entropies) / len(y))
    assert re2 == pytest.approx(plain_loss - 0.3 * (sum(wrong) / len(wrong) if wrong else 0))


def test_re2_without_a_wrong_prediction_is_the_loss_and_re1_of_even_logits_is_known() -> None:
    outputs = 5 * torch.eye(3).double()
    y = torch.arange(3)
    assert torch.equal(loss_of("re2")(outputs, y), LOSSES["ce"].per_sample(outputs, y))
    even = loss_of("re1")(torch.zeros(2, 10).double(), torch.tensor([3, 4])).mean()
    assert float(even) == pytest.approx(math.log(10) - 0.1 * math.log(10))


@pytest.mark.parametrize("size", [1, 2, 7, 8])
def test_ppb_is_as_its_authors_compute_it(size: int) -> None:
    outputs, y = batch(size=size)
    ranked = outputs.topk(4, dim=-1).values
    half = size // 2
    wanted = F.cross_entropy(outputs, y)
    if half:
        wanted = wanted + 4 * F.kl_div(
            F.log_softmax(ranked[:half], -1), F.softmax(ranked[half : 2 * half], -1), reduction="batchmean"
        )
    assert float(loss_of("ppb")(outputs, y).mean()) == pytest.approx(float(wanted))


def naive_relaxloss(outputs: Tensor, y: Tensor, alpha: float, epoch: int) -> Tensor:
    """Line by line, epochs from 0."""
    full = F.cross_entropy(outputs, y, reduction="none")
    if epoch % 2 == 0:
        return (full.mean() - alpha).abs()
    if full.mean() > alpha:
        return full.mean()
    rows = []
    for row, label, own in zip(outputs, y, full, strict=True):
        p = row.softmax(0)
        target = [p[label] if k == label else (1 - p[label]) / (len(row) - 1) for k in range(len(row))]
        soft = -sum(t * row.log_softmax(0)[k] for k, t in enumerate(target))
        rows.append((0 if int(row.argmax()) == int(label) else soft) - own)
    return torch.stack([torch.as_tensor(each) for each in rows]).mean()


@pytest.mark.parametrize("alpha", [0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("epoch", [1, 2])
def test_relaxloss_is_algorithm_1_and_so_is_its_slope(alpha: float, epoch: int) -> None:
    outputs, y = batch()
    loss = loss_of(f"relaxloss(alpha={alpha})")
    given = [outputs.clone().requires_grad_() for _ in range(2)]
    ours, theirs = loss(given[0], y, epoch).mean(), naive_relaxloss(given[1], y, alpha, epoch - 1)
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()))
    slopes = [torch.autograd.grad(value, each)[0] for value, each in zip((ours, theirs), given, strict=True)]
    torch.testing.assert_close(*slopes)


@pytest.mark.parametrize(
    ("many", "level"), [(2, math.log(2) / 2), (1, math.log(2) / 2), (3, math.log(3) / 2), (10, 1.0)]
)
def test_relaxloss_keeps_below_the_loss_of_a_guess(many: int, level: float) -> None:
    outputs = torch.randn(8, many, generator=torch.Generator().manual_seed(0)).double()
    y = torch.arange(8) % max(2, many)
    told = defences.parse("relaxloss").change(torch.full((8,), 5.0), outputs, y, 1)  # type: ignore[attr-defined]
    assert told.tolist() == pytest.approx([5 - level] * 8)


def test_a_level_above_the_loss_of_a_guess_is_told() -> None:
    given = fresh_phase(setting(task="bce"))
    told = defences.parse("relaxloss(alpha=1.0)").apply(given).notes
    assert "a level of 1 nats is above what a guess loses, 0.693: models learn to be wrong" in told[-1]
    assert defences.parse("relaxloss").apply(given).notes == given.notes
    assert defences.parse("relaxloss(alpha=1.0)").apply(fresh_phase(setting())).notes == given.notes


def test_relaxloss_changes_with_the_epoch_in_training() -> None:
    recipe = {"optimizer": "sgd", "momentum": 0.0, "lr": 0.5}
    phase = fresh_phase(setting(1, dtype=torch.float64, recipe=recipe))
    phase = defences.parse("relaxloss(alpha=50)").apply(phase)
    seen: list[dict[str, Tensor]] = []
    start = initialise(NETWORK, [init_seed(0, 0)], torch.float64)
    run(phase, on_checkpoint=lambda epoch, params: seen.append(params))

    def mean_loss(params: dict[str, Tensor]) -> float:
        places = torch.from_numpy(phase.subsets[0])
        return float(F.cross_entropy(logits(NETWORK, params, phase.x[places])[0], phase.y[places]))

    assert mean_loss(seen[0]) > mean_loss(start)  # uphill to the level, then flattened, which is uphill too
    again = run(replace(phase, recipe=replace(phase.recipe, epochs=1)))
    assert torch.equal(again.params["0.weight"], seen[0]["0.weight"])


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.8, 0.95, 1.0])
@pytest.mark.parametrize("classes", [2, 10])
def test_hamp_labels_are_the_surest_that_are_uncertain_enough(gamma: float, classes: int) -> None:
    def entropy(p: float) -> float:
        rest = (1 - p) / (classes - 1)
        return -sum(each * math.log(each) for each in [p, *[rest] * (classes - 1)] if each > 0)

    p = true_share(gamma, classes)
    assert p >= 1 / classes
    assert entropy(p) >= gamma * math.log(classes) - 1e-2
    assert p == 1 or entropy(p + 0.01) < gamma * math.log(classes)


def test_hamp_is_divergence_less_entropy() -> None:
    outputs, y = batch()
    p = true_share(0.8, 4)
    wanted = []
    for row, label in zip(outputs, y, strict=True):
        target = torch.tensor([p if k == int(label) else (1 - p) / 3 for k in range(4)]).double()
        divergence = float((target * (target.log() - row.log_softmax(0))).sum())
        wanted.append(divergence - 0.01 * naive_entropy(row))
    assert loss_of("hamp(gamma=0.8, alpha=0.01)")(outputs, y).tolist() == pytest.approx(wanted)


def test_l2_is_the_optimizers_weight_decay() -> None:
    phase = fresh_phase(setting(recipe={"weight_decay": 0.25}))
    assert defences.parse("l2(weight=0.5)").apply(phase).recipe.weight_decay == 0.75
    adamw = replace(phase, recipe=Recipe("ce", "adamw"))
    with pytest.raises(ValueError, match="l2: expected adam or sgd, got adamw"):
        defences.parse("l2").apply(adamw)


@pytest.mark.parametrize("spec", ["re1", "re2", "ppb", "hamp"])
def test_every_path_gives_the_same_models(spec: str) -> None:
    phase = defences.parse(spec).apply(fresh_phase(setting(dtype=torch.float64)))
    assert phase.gradients is None
    given = (phase.model, phase.x, phase.y, phase.subsets, phase.recipe)
    written, func, loop = (train(*given, path=path) for path in ("written", "func", "loop"))
    own = train(*given, gradients=plain(phase))
    module = replace(phase, model=Drifting().act)
    assert module.gradients is None
    for name, value in written.items():
        for other in (func, loop, own):
            torch.testing.assert_close(value, other[name], rtol=1e-9, atol=1e-9)


def test_own_gradients_of_layers_that_draw_and_drift_are_those_of_the_loop() -> None:
    phase = fresh_phase(setting(model=Drifting, dtype=torch.float64))
    given = (phase.model, phase.x, phase.y, phase.subsets, phase.recipe)
    loop, own = train(*given, path="loop"), train(*given, gradients=plain(phase))
    for name, value in loop.items():
        assert torch.equal(value, own[name]), name


def taught(runs: int = 2, task: str = "ce", **changes: Any) -> Phase:
    base = setting(runs, task=task, dtype=torch.float64, **changes)
    network = base.model
    return fresh_phase(base, teacher=Teacher(network, network.init([7, 8, 9][:runs], torch.float64)))  # type: ignore[union-attr]


@pytest.mark.parametrize("task", ["ce", "bce"])
def test_distil_halves_labels_and_the_runs_own_teacher(task: str) -> None:
    start = taught(task=task)
    phase = defences.parse("distil(weight=0.3, temperature=2.0)").apply(start)
    assert torch.equal(phase.x[torch.from_numpy(phase.subsets)], start.x[torch.from_numpy(start.subsets)])
    outputs, _ = batch(3 if task == "ce" else 2, size=16)
    for row in range(2):
        y = phase.y[torch.from_numpy(phase.subsets[row])]
        label = start.y[torch.from_numpy(start.subsets[row])]
        assert torch.equal(y[:, 0], label.double())
        own = {name: value[row : row + 1] for name, value in start.teacher.params.items()}  # type: ignore[union-attr]
        answers = logits(start.model, own, start.x[torch.from_numpy(start.subsets[row])])[0]  # type: ignore[arg-type]
        answers = answers[:, None] if answers.ndim == 1 else answers
        hard = LOSSES[task].per_sample(outputs, label)
        soft = F.cross_entropy(two(outputs) / 2, (two(answers) / 2).softmax(-1), reduction="none")
        torch.testing.assert_close(objective(phase)(outputs, y), 0.7 * hard + 0.3 * 4 * soft)


def test_dmp_learns_answers_on_reference_samples_and_never_sees_a_member() -> None:
    start = taught()
    phase = DMP().apply(start)
    reference = start.setting.roles.reference
    assert torch.equal(phase.x[torch.from_numpy(phase.subsets)], start.x[torch.from_numpy(reference)])
    y = phase.y[torch.from_numpy(phase.subsets[1])]
    outputs, _ = batch(3, size=len(y))
    wanted = F.kl_div(outputs.log_softmax(-1), y[:, 1:].softmax(-1), reduction="none").sum(-1)
    torch.testing.assert_close(objective(phase)(outputs, y), wanted)
    assert torch.equal(y[:, 0], y[:, 1:].argmax(-1).double())
    # Other members, or other labels of anybody, and the same teacher: the same models.
    task = start.setting
    moved = replace(task, y=(task.y + 1) % 3)
    other = DMP().apply(fresh_phase(moved, teacher=start.teacher))
    one, two_ = run(phase), run(other)
    assert torch.equal(one.params["0.weight"], two_.params["0.weight"])


def test_dmp_keeps_the_samples_of_lowest_entropy() -> None:
    start = taught()
    whole, half = DMP().apply(start), DMP(keep=0.5).apply(start)
    assert half.subsets.shape == (2, 9)
    for row in range(2):
        unsure = [naive_entropy(y[1:]) for y in whole.y[torch.from_numpy(whole.subsets[row])]]
        best = sorted(np.argsort(unsure, kind="stable")[:9])
        assert half.subsets[row].tolist() == whole.subsets[row][best].tolist()


def test_dmp_takes_the_place_of_a_distillation_on_members() -> None:
    both = DMP().apply(defences.parse("distil").apply(taught()))
    alone = DMP().apply(taught())
    assert torch.equal(run(both).params["0.weight"], run(alone).params["0.weight"])
    with pytest.raises(ValueError, match="distil: the training learns from a teacher already"):
        defences.parse("distil").apply(alone)


def test_who_needs_a_teacher_or_reference_samples_says_so() -> None:
    bare = fresh_phase(setting())
    for name in ("distil", "dmp", "bigpara"):
        assert defences.parse(name).needs_teacher
        with pytest.raises(ValueError, match=f"{name}: expected a phase with a teacher, got none"):
            defences.parse(name).apply(bare)
    poor = taught(roles=without_reference())
    for name in ("dmp", "advreg"):
        with pytest.raises(ValueError, match=f"{name}: expected reference samples.*, which are no members"):
            defences.parse(name).apply(poor)
    unknown = taught(roles=replace(deal(120, 2, SIZES), labelled=False))
    assert unknown.setting.roles.of(1).labelled is False
    defences.parse("dmp").apply(unknown)
    with pytest.raises(ValueError, match="advreg: expected reference samples with labels, as the attacker"):
        AdvReg().apply(unknown)


def test_bigpara_starts_from_the_teacher() -> None:
    start = taught()
    phase = replace(defences.parse("bigpara").apply(start), plan=Plan(0.5))
    still = replace(phase, recipe=replace(phase.recipe, lr=1e-30, momentum=0.0))
    done = run(still)
    for name, value in done.params.items():
        kept = start.teacher.params[name]  # type: ignore[union-attr]
        torch.testing.assert_close(value, kept * done.masks[name] if name in done.masks else kept)
    small = replace(start, model=replace(NETWORK, widths=(6, 5, 3)))
    with pytest.raises(
        ValueError, match=r"bigpara: the big model's weights do not fit the model: params: expected"
    ):
        defences.parse("bigpara").apply(small)


def test_dropout_leaves_names_start_and_released_model_as_they_are() -> None:
    start = fresh_phase(setting())
    phase = defences.parse("dropout(share=0.5)").apply(start)
    assert isinstance(phase.model, nn.Module)
    assert sum(isinstance(part, nn.Dropout) for part in phase.model.modules()) == 1
    fresh, plain_ = initialise(phase.model, [3]), initialise(NETWORK, [3])
    assert list(fresh) == list(plain_)
    assert all(torch.equal(fresh[name], value) for name, value in plain_.items())
    done = run(phase)
    assert done.model is start.model
    assert not torch.equal(done.params["0.weight"], run(start).params["0.weight"])
    none = run(defences.parse("dropout(share=0.0)").apply(start))
    torch.testing.assert_close(none.params["0.weight"], run(start).params["0.weight"], rtol=1e-4, atol=1e-5)
    with pytest.raises(
        ValueError, match=r"dropout: expected a module with activation layers .* none in Linear"
    ):
        defences.parse("dropout").apply(fresh_phase(setting(model=nn.Linear(6, 3))))


def images() -> Batch:
    x = torch.arange(2 * 3 * 1 * 4 * 4, dtype=torch.float64).reshape(2, 3, 16) + 1
    rows = torch.zeros(2, 3, dtype=torch.int64)
    return Batch(x, torch.zeros(2, 3), rows, Epoch(1, (0, 1), rows, 3, 5), 0)


def test_augmented_images_are_shifted_or_flipped_copies() -> None:
    given = images()
    view = Augment(noise=0, pad=1, flip=True, shape=(1, 4, 4)).view
    seen = view(given)
    assert torch.equal(seen.x, view(given).x)
    assert not torch.equal(seen.x, view(replace(given, number=1)).x)
    kinds = set()
    for model in range(2):
        for row in range(3):
            whole = F.pad(given.x[model, row].reshape(4, 4), (1, 1, 1, 1))
            crops = {
                (down, right, flip): (part.flip(1) if flip else part)
                for down in range(3)
                for right in range(3)
                for flip in (False, True)
                for part in [whole[down : down + 4, right : right + 4]]
            }
            found = [
                key for key, crop in crops.items() if torch.equal(crop, seen.x[model, row].reshape(4, 4))
            ]
            assert len(found) == 1
            kinds.add(found[0])
    assert len(kinds) > 2
    assert {flip for *_, flip in kinds} == {False, True}
    noisy = Augment(noise=0.5).view(given).x - given.x
    assert float(noisy.std()) == pytest.approx(0.5, rel=0.2)
    own = replace(given.epoch, models=(1,))
    alone = Batch(given.x[1:], given.y[1:], given.samples[1:], own, 0)
    assert torch.equal(view(alone).x[0], seen.x[1])


def test_augment_refuses_what_it_cannot_see() -> None:
    with pytest.raises(ValueError, match=r"augment: pad and flip are for images; .* of 6 pixels in all"):
        Augment(pad=2).apply(fresh_phase(setting()))
    phase = fresh_phase(setting())
    with pytest.raises(ValueError, match=r"augment: expected inputs that are real numbers, got torch.int64"):
        Augment().apply(replace(phase, x=phase.x.long()))


def test_a_step_against_the_adversary_is_two_plain_steps_of_torch() -> None:
    """Adam on the gain, then SGD on loss plus term, by modules and autograd."""
    defence = AdvReg(alpha=0.7, steps=2, width=8)
    recipe = {"epochs": 1, "batch_size": 16, "momentum": 0.0, "lr": 0.3}
    phase = defence.apply(fresh_phase(setting(1, dtype=torch.float64, recipe=recipe)))
    states: list[Any] = []
    train(
        phase.model,
        phase.x,
        phase.y,
        phase.subsets,
        phase.recipe,
        gradients=phase.gradients,
        on_state=states.append,
    )
    start = initialise(phase.model, [init_seed(0, 0)], torch.float64)
    model, network = NETWORK.module().double(), _Network(3, 8).double()
    model.load_state_dict({name: start[name][0] for name in model.state_dict()})
    carried = {key: f"{NAME}.w_{key.replace('.', '-')}" for key in network.state_dict()}
    network.load_state_dict({key: start[name][0] for key, name in carried.items()})
    adam = torch.optim.Adam(network.parameters(), lr=1e-3)
    places = torch.from_numpy(phase.subsets[0])
    x, y = phase.x[places], phase.y[places]
    reference = phase.setting.roles.reference
    drawn = _Attack(defence, phase)  # only for the samples that it draws
    for number in range(2):
        others = drawn._drawn(0, 16, (1, 0, number))
        assert set(others) <= set(reference[0])
        out = torch.from_numpy(others)
        with torch.no_grad():
            told = model(x), model(phase.x[out])
        gain = (
            F.logsigmoid(network(told[0], y)).mean() + F.logsigmoid(-network(told[1], phase.y[out])).mean()
        ) / 2
        adam.zero_grad()
        (-gain).backward()
        adam.step()
    outputs = model(x)
    loss = F.cross_entropy(outputs, y) + 0.7 * F.logsigmoid(network(outputs, y)).mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.3 * parameter.grad
    got = states[-1].params
    for name, value in model.state_dict().items():
        torch.testing.assert_close(got[name][0], value)
    for key, value in network.state_dict().items():
        torch.testing.assert_close(got[carried[key]][0], value)


def test_the_adversary_is_never_masked_and_never_released() -> None:
    phase = replace(AdvReg().apply(fresh_phase(setting())), plan=Plan(0.3))
    assert set(maskable(phase.model).shapes) == set(maskable(NETWORK).shapes)
    states: list[dict[str, Tensor]] = []
    done = run(phase, on_checkpoint=lambda epoch, params: states.append(params))
    moved = [
        name
        for name in states[0]
        if name.startswith(f"{NAME}.w") and not torch.equal(*(s[name] for s in states))
    ]
    assert len(moved) == 10
    assert set(done.params) == set(NETWORK.init([0]))
    late = AdvReg(warmup=2).apply(fresh_phase(setting()))
    torch.testing.assert_close(
        run(late).params["0.weight"], run(fresh_phase(setting())).params["0.weight"], rtol=1e-4, atol=1e-5
    )


@pytest.mark.slow
def test_the_adversary_makes_the_model_tell_less() -> None:
    """Planted: a model that knows its few members by heart; a strong term brings their loss nearer to others'."""
    found = []
    for spec in ("", "advreg(alpha=20.0, lr=0.01)"):
        phase = fresh_phase(setting(1, recipe={"epochs": 20, "lr": 0.2, "batch_size": 16}))
        phase = defences.parse(spec).apply(phase) if spec else phase
        done = run(phase)
        roles = phase.setting.roles
        inside, outside = (
            torch.from_numpy(np.ascontiguousarray(part[0])) for part in (roles.fit, roles.reference)
        )
        losses = [
            float(F.cross_entropy(logits(NETWORK, done.params, phase.x[part])[0], phase.y[part]))
            for part in (inside, outside)
        ]
        found.append((losses[0], losses[1] - losses[0]))
    (plain_loss, plain_gap), (own_loss, own_gap) = found
    assert own_loss > plain_loss + 0.2
    assert own_gap < plain_gap - 0.1


def private_phase(noise: float, clip: float, **changes: Any) -> tuple[DPSGD, Phase]:
    defence = DPSGD(noise=noise, clip=clip)
    phase = fresh_phase(setting(1, dtype=torch.float64, **changes))
    return defence, defence.apply(phase)


@pytest.mark.parametrize("clip", [0.05, 100.0])
def test_a_step_without_noise_is_that_of_opacus(clip: float) -> None:
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    _, phase = private_phase(0.0, clip, recipe={"momentum": 0.0, "lr": 1.0})
    gradients = _Noisy(DPSGD(noise=0.0, clip=clip), phase)
    start = initialise(NETWORK, [init_seed(0, 0)], torch.float64)
    rows = torch.zeros(1, 8, dtype=torch.int64)
    given = Batch(phase.x[rows], phase.y[rows], rows, Epoch(2, (0,), rows, 8, 0), 1)
    ours = gradients(start, given)
    module = NETWORK.module().double()
    module.load_state_dict({name: value[0] for name, value in start.items()})
    wrapped = GradSampleModule(module)
    optimizer = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=clip,
        expected_batch_size=8,
    )
    places = torch.from_numpy(gradients._drawn(0, given))
    assert 0 < len(places) < 16
    # Inputs that need a gradient keep a hook of Opacus from warning.
    F.cross_entropy(wrapped(phase.x[places].requires_grad_()), phase.y[places]).backward()
    optimizer.step()
    for name, value in module.state_dict().items():
        torch.testing.assert_close(start[name][0] - ours[name][0], value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("clip", [0.05, 1e9])
@pytest.mark.parametrize("many", [0, 1, 9])
def test_a_perceptrons_sum_needs_no_samples_gradient(many: int, clip: float, masked: bool) -> None:
    network = MLP((6, 5, 4, 3), "tanh")
    own = {name: value[0] for name, value in network.init([3], torch.float64).items()}
    masks = {}
    if masked:
        generator = torch.Generator().manual_seed(0)
        masks = {
            name: torch.rand(own[name].shape, generator=generator) < 0.4
            for name in ("0.weight", "4.weight", "2.bias")
        }
    x, y = samples(dtype=torch.float64)

    def losses(outputs: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(outputs, y, reduction="none")

    given = (masks, x[:many], y[:many], losses, clip)
    fast, slow = by_layer(network, own, *given), by_sample(network.module().double(), own, {}, *given)
    assert list(fast) == list(own)
    wanted = {name: torch.zeros_like(value) for name, value in own.items()}
    for row in range(many):
        leaves = {name: value.clone().requires_grad_() for name, value in own.items()}
        loss = losses(
            torch.func.functional_call(network.module().double(), leaves, (x[row : row + 1],)),
            y[row : row + 1],
        )
        slopes = dict(zip(leaves, torch.autograd.grad(loss.sum(), list(leaves.values())), strict=True))
        slopes = {name: value * masks.get(name, 1) for name, value in slopes.items()}
        norm = math.sqrt(sum(float(value.square().sum()) for value in slopes.values()))
        for name, value in slopes.items():
            wanted[name] += value * min(1.0, clip / (norm + 1e-6))
    for name, value in wanted.items():
        torch.testing.assert_close(fast[name], value)
        torch.testing.assert_close(slow[name], value)


def test_noise_has_the_size_that_the_accountant_is_told() -> None:
    _, phase = private_phase(2.0, 0.5)
    loud, quiet = _Noisy(DPSGD(2.0, 0.5), phase), _Noisy(DPSGD(0.0, 0.5), phase)
    start = initialise(NETWORK, [init_seed(0, 0)], torch.float64)
    rows = torch.zeros(1, 8, dtype=torch.int64)
    found = []
    for number in range(30):
        given = Batch(phase.x[rows], phase.y[rows], rows, Epoch(1, (0,), rows, 8, 0), number)
        a, b = loud(start, given), quiet(start, given)
        found.append(torch.cat([(a[name] - b[name]).flatten() for name in a]))
    noise = torch.stack(found) * 8  # the expected batch
    assert float(noise.std()) == pytest.approx(2.0 * 0.5, rel=0.03)
    assert abs(float(noise.mean())) < 0.05
    assert float((noise[0] * noise[1]).mean()) == pytest.approx(0, abs=0.2)


def test_poisson_batches_are_of_the_model_alone_and_of_the_right_size() -> None:
    _, phase = private_phase(1.0, 1.0)
    noisy = _Noisy(DPSGD(), phase)
    rows = torch.zeros(1, 8, dtype=torch.int64)
    sizes = []
    for number in range(300):
        given = Batch(phase.x[rows], phase.y[rows], rows, Epoch(1, (0,), rows, 8, 0), number)
        places = noisy._drawn(0, given)
        assert set(places) <= set(phase.subsets[0])
        sizes.append(len(places))
    assert np.mean(sizes) == pytest.approx(8, abs=0.5)
    assert np.var(sizes) == pytest.approx(16 * 0.25, rel=0.3)


def test_gradients_are_masked_before_they_are_clipped() -> None:
    _, dense = private_phase(0.0, 1e-3)
    sparse = replace(dense, plan=Plan(0.3))
    masks = fixed_masks(sparse)
    found = maskable(NETWORK)
    kept = counts(found.shapes, 0.3)
    wanted = draw_masks(found.shapes, kept, [0], seed=0)
    assert all(torch.equal(masks[name], wanted[name]) for name in wanted)
    done = run(sparse)
    assert all(torch.equal(done.masks[name], wanted[name]) for name in wanted)
    start = initialise(NETWORK, [init_seed(0, 0)], torch.float64)
    rows = torch.zeros(1, 8, dtype=torch.int64)
    given = Batch(dense.x[rows], dense.y[rows], rows, Epoch(1, (0,), rows, 8, 0), 0)
    noisy = _Noisy(DPSGD(0.0, 1e-3), sparse)
    slopes = noisy(start, given)
    for name, mask in masks.items():
        assert (slopes[name][~mask] == 0).all()
    # Every sample is clipped; opposite slopes may cancel, so the sum has at most the norm of all.
    norm = math.sqrt(sum(float(value.square().sum()) for value in slopes.values())) * 8
    many = len(noisy._drawn(0, given))
    whole = _Noisy(DPSGD(0.0, 1e-3), dense)(start, given)
    inside = math.sqrt(sum(float((whole[name] * masks.get(name, 1)).square().sum()) for name in whole)) * 8
    assert inside < norm <= many * 1e-3


def test_epsilon_is_that_of_opacus_accountant_stepped_one_by_one() -> None:
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    for _ in range(4):
        accountant.step(noise_multiplier=1.1, sample_rate=0.5)
    phase = DPSGD(1.1).apply(fresh_phase(setting()))
    assert phase.epsilon is not None
    assert phase.epsilon == (pytest.approx(accountant.get_epsilon(1e-5)), 1e-5)
    assert epsilon(1.1, 0.5, 8, 1e-5) > phase.epsilon[0]
    assert replace(phase, plan=Plan(0.3)).epsilon == phase.epsilon
    assert phase.remarks == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"init": {}}, "it begins from weights"),
        ({"masks": {}}, "its masks were made from weights"),
        ({"plan": Plan(0.3, prune="magnitude", grow="random")}, "its masks move"),
    ],
)
def test_there_is_no_epsilon_when_something_else_saw_the_members(change: dict[str, Any], why: str) -> None:
    phase = replace(DPSGD().apply(fresh_phase(setting())), **change)
    assert phase.epsilon is None
    assert len(phase.remarks) == 1
    assert phase.remarks[0].startswith(f"not differentially private: {why}")


def test_there_is_no_epsilon_at_a_delta_that_allows_to_publish_a_sample() -> None:
    phase = fresh_phase(setting())
    samples = phase.subsets.shape[1]
    assert DPSGD(delta=0.9 / samples).apply(phase).epsilon is not None
    for delta in (1 / samples, 0.5, 1):
        found = DPSGD(delta=delta).apply(phase)
        assert found.epsilon is None
        assert found.remarks[-1].startswith(
            f"no epsilon: delta {delta:g} is not below one over the {samples} samples"
        )


def test_no_noise_and_a_teacher_have_no_epsilon_either() -> None:
    assert DPSGD(noise=0).apply(fresh_phase(setting())).epsilon is None
    for order in (("distil", "dpsgd"), ("dpsgd", "distil")):
        phase = taught()
        for name in order:
            phase = defences.parse(name).apply(phase)
        assert phase.epsilon is None
        assert "its teacher" in phase.remarks[0]


def test_dpsgd_refuses_what_has_no_gradient_of_one_sample() -> None:
    task = setting(model=Drifting)
    with pytest.raises(ValueError, match=r"dpsgd: norm \(BatchNorm1d\) mixes the samples of a batch"):
        DPSGD().apply(fresh_phase(task))
    grown = fresh_phase(setting(), plan=Plan(0.3, prune="magnitude", grow="gradient"))
    with pytest.raises(ValueError, match="dpsgd: growth by gradient reads gradients without noise"):
        run(DPSGD().apply(grown))
    for name in ("re2", "ppb", "relaxloss"):
        phase = defences.parse(name).apply(DPSGD().apply(fresh_phase(setting())))
        with pytest.raises(ValueError, match=f"dpsgd: expected a loss of single samples, got .*{name}"):
            run(phase)


def test_two_defences_that_step_themselves_do_not_go_together() -> None:
    phase = fresh_phase(setting())
    with pytest.raises(
        ValueError, match=r"dpsgd: expected a training that no other defence steps .* AdvReg's"
    ):
        DPSGD().apply(AdvReg().apply(phase))
    with pytest.raises(
        ValueError, match=r"advreg: expected a training that no other defence steps .* DPSGD's"
    ):
        AdvReg().apply(DPSGD().apply(phase))
    with pytest.raises(ValueError, match="advreg: dmp trains on no members, there is nobody to hide"):
        run(AdvReg().apply(DMP().apply(taught())))
    with pytest.raises(ValueError, match="hamp: dmp replaces the loss already; use one of them"):
        defences.parse("hamp").apply(DMP().apply(taught()))


@pytest.mark.parametrize("name", ["re1", "re2", "ppb", "relaxloss", "hamp", "distil", "dmp", "advreg"])
def test_a_regression_has_no_classes(name: str) -> None:
    start = fresh_phase(setting(task="mse"))
    network = start.model
    phase = replace(start, teacher=Teacher(network, network.init([0, 1])))  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=f"{name}: expected a task with classes \\(bce or ce\\), got mse"):
        defences.parse(name).apply(phase)


@pytest.mark.parametrize("name", ["l2", "augment", "dropout", "dpsgd", "bigpara"])
def test_a_regression_can_be_trained_with_the_others(name: str) -> None:
    start = fresh_phase(setting(task="mse"))
    network = start.model
    phase = replace(start, teacher=Teacher(network, network.init([0, 1])))  # type: ignore[union-attr]
    assert run(defences.parse(name).apply(phase)).params["0.weight"].isfinite().all()


@pytest.mark.parametrize(
    "spec",
    [
        "re1(beta=-1)",
        "re2(beta=-0.1)",
        "ppb(weight=-1)",
        "relaxloss(alpha=-1)",
        "hamp(gamma=1.1)",
        "hamp(alpha=-1)",
        "l2(weight=-1)",
        "distil(weight=2)",
        "distil(temperature=0)",
        "dmp(keep=0)",
        "dmp(temperature=-1)",
        "dropout(share=1)",
        "augment(noise=-1)",
        "augment(pad=-1)",
        "advreg(alpha=-1)",
        "advreg(steps=0)",
        "advreg(lr=0)",
        "advreg(width=1)",
        "dpsgd(noise=-1)",
        "dpsgd(clip=0)",
        "dpsgd(delta=0)",
    ],
)
def test_fields_out_of_their_range(spec: str) -> None:
    field = spec.partition("(")[2].partition("=")[0]
    with pytest.raises(ValueError, match=rf"{field}: expected .*, got "):
        defences.parse(spec)


def test_a_loss_of_the_users_own_is_kept() -> None:
    def squared(outputs: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(outputs, y.long(), reduction="none") ** 2

    x, y = samples()
    task = replace(setting(), recipe=replace(setting().recipe, loss=squared), task="ce")
    assert objective(fresh_phase(task)).own is squared
    outputs, y = batch(3)
    wanted = squared(outputs, y) - 0.1 * torch.tensor([naive_entropy(row) for row in outputs]).double()
    torch.testing.assert_close(objective(defences.parse("re1").apply(fresh_phase(task)))(outputs, y), wanted)
    assert x.shape == (120, 6)
    assert deal(120, 1, SIZES).runs == 1


def test_other_settings_are_another_loss() -> None:
    names = {loss_of(spec).__name__ for spec in ("re2", "re2(beta=0.2)", "hamp", "hamp(gamma=0.7)")}
    assert len(names) == 4
