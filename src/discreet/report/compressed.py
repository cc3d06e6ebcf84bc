"""The page of a compression: what ships, what it gives away, and what it is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet._find import bare
from discreet._words import interval, label, listing, number, percent, whole
from discreet.guarantee import AGAINST, guarantee
from discreet.report.compressed_figures import Mark, Track, course, ladder, worth
from discreet.report.document import document
from discreet.report.drawing import Figure, inline
from discreet.report.markup import Markup, join, node, prose
from discreet.report.table import more, note, table

__all__ = ["compressed"]

Plain = Mapping[str, Any]


def compressed(told: Plain, speed: Plain | None = None) -> str:
    """The page, the same text for the same numbers.

    Args:
        told: What ``compress.json`` holds.
        speed: What ``speed.json`` holds.
    """
    sections = [
        ("ships", "What ships", _ships(told)),
        ("worth", "Beside its controls", _worth(told)),
        ("course", "The course of the training", _course(told)),
        ("ladder", "Other densities", _ladder(told)),
        ("speed", "Speed on this machine", _speed(speed or {})),
        ("provenance", "Provenance", _provenance(told)),
        ("reading", "How to read this", _reading(told)),
    ]
    shown = [(name, title, body) for name, title, body in sections if body is not None]
    contents = [node("li", node("a", title, href=f"#{name}")) for name, title, _ in shown]
    main = [
        node(
            "section",
            node("h2", title, id=f"{name}-heading"),
            body,
            id=name,
            aria_labelledby=f"{name}-heading",
        )
        for name, title, body in shown
    ]
    body = node(
        "body",
        _head(told),
        node("nav", node("ul", *contents), aria_label="Contents"),
        node("main", *main),
        node(
            "footer",
            node("p", "Made by discreet. compress.json beside this page holds every number in full."),
        ),
    )
    return document("A compressed model", body)


def _head(told: Plain) -> Markup:
    first = told["units"][0]
    said = _said(told)
    facts = (
        ("Task performance", _estimate(first["audit"]["task"])),
        ("Attack accuracy", _estimate(first["audit"]["mia"])),
        ("Weights in use", percent(first["used"] / first["parameters_full"])),
        ("Runs", whole(told["spec"]["compress"]["runs"])),
    )
    title = node(
        "div", node("h1", _short(first)), node("p", "A compressed model and its audit"), class_="title"
    )
    listed = [node("div", node("dt", name), node("dd", value)) for name, value in facts]
    return node(
        "header", title, node("p", prose(said[0]), class_="lead"), node("dl", *listed, class_="facts")
    )


def _said(told: Plain) -> list[str]:
    """What the figures carry, in sentences; nothing is claimed where intervals overlap."""
    first, *others = told["units"]
    mia, task = first["audit"]["mia"], first["audit"]["task"]
    said = [
        f"The strongest of {len(told['audit'])} attacks tells members from non-members with an accuracy of"
        f" {_estimate(mia)} (0.5 is a coin), at a task performance of {_estimate(task)}."
    ]
    if first["epsilon"]:
        said.append(f"Its training was differentially private: {guarantee(first['epsilon'])}, {AGAINST}.")
    for unit in others:
        if unit["part"] != "ladder" and unit["beside"]:
            leak, task = (_apart(unit["beside"][name]) for name in ("mia", "task"))
            said.append(
                f"Beside `{_short(unit)}` its attack accuracy is {leak}, its task performance {task}."
            )
    if others and not any(unit["beside"] for unit in others):
        said.append("There is one run: what differs from its controls may be chance.")
    return said


def _apart(told: Plain) -> str:
    if told["low"] > 0:
        return f"higher by {_estimate(told)}"
    if told["high"] < 0:
        less = {"value": -told["value"], "low": -told["high"], "high": -told["low"]}
        return f"lower by {_estimate(less)}"
    return f"not told apart ({interval(told['low'], told['high'])})"


def _ships(told: Plain) -> Markup:
    said = [node("li", prose(sentence)) for sentence in _said(told)[1:]]
    parts = [node("ul", *said, class_="summary") if said else None]
    shipped = told["shipped"]
    if shipped is not None:
        rows = [
            (
                node("code", each["name"]),
                each["form"],
                whole(each["bytes"]),
                _sameness(each),
                _estimate(each.get("audit", {}).get("task")),
                _estimate(each.get("audit", {}).get("mia")),
            )
            for each in shipped["files"]
        ]
        head = ("File", "Form", "Bytes", "Same outputs", "Task, reloaded", "Attack, reloaded")
        parts.append(table("Files of the model of the first run", head, rows, text=(0, 1, 3)))
        parts.append(
            note(
                "Each file was written, read back and then measured: the last columns are of what was read. Intervals"
                " here are of one model over its test and audit records; those elsewhere on this page are over runs."
            )
        )
        parts += [_exported(each) for each in shipped["files"] if "attacks" in each.get("audit", {})]
        parts.append(_weights(shipped["weights"]))
        parts += [note(each) for each in shipped["notes"]]
    parts += [note(each) for each in (*told["notes"], *told["units"][0]["notes"])]
    return join(*parts)


def _exported(file: Plain) -> Markup:
    """Everything that was measured of one file, folded."""
    audit = file["audit"]
    rows = [
        ("task performance", _estimate(audit["task"])),
        ("task performance on members", _estimate(audit["train"])),
        *(
            (f"accuracy of the attack {label(name, 30)}", _estimate(each))
            for name, each in audit["attacks"].items()
        ),
        ("the strongest, at least 0.5", _estimate(audit["mia"])),
        ("AUC of the strongest", _estimate(audit["auc"])),
        *((f"its TPR at {float(fpr):g} FPR", _estimate(each)) for fpr, each in audit["tpr"].items()),
        ("task / attack", _estimate(audit["tm"])),
        ("records of the audit", whole(audit["mia"]["n"])),
    ]
    head = ("Measure", "Value")
    return more(f"Audit of {file['name']}", table(f"Audit of {file['name']}, reloaded", head, rows))


def _sameness(file: Plain) -> str:
    if file.get("difference"):
        return f"within {number(file['difference'])}"
    return {True: "yes", False: "no", None: "–"}[file.get("difference") == 0 or file.get("same")]


def _weights(weights: Plain) -> Markup | None:
    if not weights["maskable"]:
        return None
    dead = sum(weights["dead"].values())
    said = (
        f"{whole(weights['used'])} of {whole(weights['maskable'])} maskable weights are in use"
        f" ({percent(weights['used'] / weights['maskable'])}); {whole(dead)} units have none."
    )
    if weights.get("removed"):
        said += (
            f" Without units that do nothing ({whole(weights['removed'])}) the same function fits widths"
            f" {listing([str(each) for each in weights['narrow']], 20)}."
        )
    return note(said)


def _worth(told: Plain) -> Markup:
    units = [unit for unit in told["units"] if unit["part"] != "ladder"]
    marks = [_mark(unit) for unit in units]
    head = ("Method", "Weights in use", "Task", "Attack", "Task / attack", "Epochs", "Passes spent")
    rows = [
        (
            node("code", mark.name),
            percent(unit["used"] / unit["parameters_full"]),
            _estimate(unit["audit"]["task"]),
            _estimate(unit["audit"]["mia"]),
            _estimate(unit["audit"]["tm"]),
            number(unit["epochs"]),
            number(unit["spent"]),
        )
        for mark, unit in zip(marks, units, strict=True)
    ]
    every = [
        (node("code", mark.name), *(_estimate(unit["audit"]["attacks"].get(spec)) for spec in told["audit"]),
         _estimate(unit["audit"]["auc"]), *(_estimate(each) for each in unit["audit"]["tpr"].values()))
        for mark, unit in zip(marks, units, strict=True)
    ]  # fmt: skip
    names = [f"{label(spec, 30)}" for spec in told["audit"]]
    rates = [f"TPR at {float(fpr):g} FPR" for fpr in units[0]["audit"]["tpr"]]
    data = table("Attack accuracy by attack, and the strongest one's other figures",
                 ("Method", *names, "AUC", *rates), every)  # fmt: skip
    key = "Numbers: " + ", ".join(f"{at} {mark.name}" for at, mark in enumerate(marks, 1)) + "."
    caption = (
        "Up is a better task, left a weaker attack. The disc is the method that ships, the hollow one the same with"
        " candidates picked at random, diamonds are controls. Passes spent count teachers and candidates that were"
        " thrown away: methods that spent more had more chances."
    )
    notes = [
        note(f"{mark.name}: {text}")
        for mark, unit in zip(marks, units, strict=True)
        for text in (
            *([f"{guarantee(unit['epsilon'])}, {AGAINST}."] if unit["epsilon"] else []),
            *unit["notes"],
        )
    ]
    return join(
        _block(worth(marks), caption, data, key), table("Every method, mean over runs", head, rows), *notes
    )


def _course(told: Plain) -> Markup | None:
    by_part = {unit["part"]: Track.of(unit["history"].get("points", ())) for unit in told["units"]}
    own, random = by_part.get("method"), by_part.get("random")
    if own is None or len(own.epochs) < 2:
        return None
    rows = [
        (f"{epoch}", *(f"{number(values[at])} ({interval(own.low[name][at], own.high[name][at])})"
                       for name, values in own.values.items()))
        for at, epoch in enumerate(own.epochs)
    ]  # fmt: skip
    data = table("Mean over runs, with the least and the greatest", ("Epoch", *own.values), rows)
    caption = join(
        "Mean over runs with the range of the runs; a mark at the foot is an update of the masks. ",
        "The grey line is the control whose candidates were picked at random. " if random is not None else "",
        "These records chose the model, and are not those of the audit; attack accuracy here is that of the"
        " candidates' test, which says less than the audit.",
        _undecided(told["units"][0]),
    )
    return _block(course(own, random), caption, data)


def _undecided(unit: Plain) -> str:
    """How often the rule could not tell the candidates apart, or there was one alone, if that ever was so."""
    rounds: Sequence[Plain] = unit["history"].get("rounds", ())
    if unit["method"].startswith("safecompress(rule='random'"):
        return ""  # lots look for no difference
    equal = sum(not each["difference"] for each in rounds)
    if not equal:
        return ""
    alone = sum(each.get("distinct") == 1 for each in rounds)  # folders of older releases do not say
    same = f" (in {alone} all candidates were the same)" if alone else ""
    return f" In {equal} of {len(rounds)} choices it found no difference between candidates{same}."


def _ladder(told: Plain) -> Markup | None:
    method = told["units"][0]["method"]
    units = [unit for unit in told["units"] if unit["method"] == method]
    if len(units) < 2:
        return None
    marks = [_mark(unit) for unit in units]
    rows = [
        (f"{mark.density:g}", _estimate(mark.task), _estimate(mark.mia), _estimate(unit["audit"]["tm"]))
        for mark, unit in zip(marks, units, strict=True)
    ]
    data = table("By share of weights kept", ("Density", "Task", "Attack", "Task / attack"), rows)
    caption = (
        "Means over runs with their intervals. Whoever publishes several of these models gives attackers more than"
        " the strongest one: they can be compared with each other."
    )
    return _block(ladder(marks), caption, data)


def _speed(speed: Plain) -> Markup | None:
    if not speed:
        return None
    rows = [
        (
            each["form"],
            whole(each["batch"]),
            f"{_middle(each['seconds'], 1e3)} ms",
            "1" if each["form"] == "dense" else _middle(each["faster"]),
        )
        for each in speed["latency"]
    ]
    parts = [table("Median time of a batch on one thread", ("Form", "Records", "Time", "Times faster"), rows)]
    kept = [swap["layer"] for swap in speed["swaps"] if swap["kept"]]
    if speed["swaps"]:
        parts.append(
            note(
                f"Skipping zeros is kept for {listing(kept, 20)}: at least 1.1 times faster at every batch size."
                if kept
                else "Skipping the zeros of linear layers is not 1.1 times faster here for any of them: left out."
            )
        )
        cells = [
            (node("code", swap["layer"]), number(swap["density"]), *map(_middle, swap["faster"].values()))
            for swap in speed["swaps"]
        ]
        sizes = [f"Times faster, {size} records" for size in speed["swaps"][0]["faster"]]
        parts.append(
            more("Each layer", table("Layers without their zeros", ("Layer", "Density", *sizes), cells))
        )
    return join(*parts)


def _provenance(told: Plain) -> Markup:
    roles = [(name, whole(many)) for name, many in told["roles"].items()]
    data = [(name, str(value)) for name, value in told["data"].items() if not isinstance(value, Mapping)]
    spec = [
        (f"{section}.{key}", str(value))
        for section, keys in told["spec"].items()
        for key, value in keys.items()
    ]
    full = [(_short(unit), node("span", unit["method"], class_="prose")) for unit in told["units"]]
    return join(
        table("Data", ("What", "Value"), data, text=(0, 1)),
        table("Samples that play each part in a run", ("Part", "Samples"), roles),
        more("Methods in full", table("Methods", ("Shown", "In full"), full, text=(0, 1))),
        more("The spec", table("Keys", ("Key", "Value"), spec, text=(0, 1))),
    )


def _reading(told: Plain) -> Markup:
    epsilon = any(unit["epsilon"] for unit in told["units"])
    undefined = any(unit["audit"]["tm"] is None for unit in told["units"])
    said = (
        "Members are records that the model was trained on. An attack's accuracy is balanced: half of its records are"
        " members. 0.5 is what a coin gets; a value a little above it can still expose single records, which the"
        " rates at few false alarms show.",
        "Attackers learn on one half of the audit's records and are judged on the other. No other part of the work"
        " saw its non-members.",
        "Weights in use are a share of the big model's parameters, also for a small model that uses all of its own.",
        "An interval is a t interval over runs, which differ in records and seeds; differences are taken run by run."
        " Where an interval of a difference holds 0, nothing is claimed.",
        *(
            ("Task / attack is left out where a performance is below 0: it would be higher the more leaks.",)
            if undefined
            else ()
        ),
        "None of this is a guarantee. Only a method with an epsilon has one"
        + (
            f", and {AGAINST}."
            if epsilon
            else ", and none on this page has: stronger attacks than these may exist."
        ),
    )
    return join(*(node("p", sentence) for sentence in said))


def _block(figure: Figure, caption: str | Markup, data: Markup, key: str | None = None) -> Markup:
    shown = node(
        "figure",
        inline(figure, f"c-{figure.name}"),
        None if key is None else node("p", key, class_="key"),
        node("figcaption", node("strong", figure.title + ". "), caption),
    )
    return join(shown, node("details", node("summary", "Data of this figure"), data, class_="screen"))


def _mark(unit: Plain) -> Mark:
    return Mark(_short(unit), unit["part"], unit["density"], unit["audit"]["mia"], unit["audit"]["task"])


def _short(unit: Plain) -> str:
    """A method's name without its fields, and what tells it from its like."""
    return bare(unit["method"]) + (", picked at random" if unit["part"] == "random" else "")


def _estimate(told: Plain | None) -> str:
    return "–" if told is None else f"{number(told['value'])} ({interval(told['low'], told['high'])})"


def _middle(told: Plain, scale: float = 1.0) -> str:
    ends: Sequence[float | None] = [
        None if told[end] is None else told[end] * scale for end in ("low", "high")
    ]
    return f"{number(told['value'] * scale)} ({interval(*ends)})"
