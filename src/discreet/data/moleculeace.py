"""Activity on 30 targets (ChEMBL, CC BY-SA 3.0), as shipped in the Python package ``MoleculeACE`` (MIT).

Van Tilborg, Alenicheva and Grisoni, "Exposing the Limitations of Molecular Machine Learning with Activity Cliffs"
(2022).
"""

from __future__ import annotations

import csv
import io

from discreet._find import near
from discreet.data.molecule_set import MoleculeSet, molecule_set
from discreet.data.package_files import read_shipped
from discreet.data.samples import DataError

__all__ = ["TARGETS", "load"]

_ADVICE = "install it with: pip install --no-deps MoleculeACE==3.0.0"
TARGETS = {
    "CHEMBL1862_Ki": "72a750426976bf5c17ca9129e86dff20962332f92a8ce16028d9fbcf152ca412",
    "CHEMBL1871_Ki": "62d05aa76d096fd5bd3575dcfd30dcab24873dc010de47b478b6617fbd95985e",
    "CHEMBL2034_Ki": "476668f39aae0e29a1ab8fa83a7087b179dc705b68cdc060c9958a0eed2048d4",
    "CHEMBL2047_EC50": "ea1bacf43377aac288840f2d2e37df7705a0d2d1f93bb52b0ce85e499e311f6e",
    "CHEMBL204_Ki": "6ccf17a5f1aa6322f2d68f24b923f2efb5779ff73d33035bb889bb922b18dba5",
    "CHEMBL2147_Ki": "5cbf4deba3e6312aff3a77ac3c70eb39a3cd58c9d8686a19a8b56c4a73377d02",
    "CHEMBL214_Ki": "68bffa3069340c51204ba23395626622559a10c3d39b1111cb9c47f9d9960962",
    "CHEMBL218_EC50": "9133aefc69efa92403107f78f747d4acbd370255ac0a2949cc5f86a30b5ebd11",
    "CHEMBL219_Ki": "f0d13b1bd8086e3fed746215b0ff8c4399518547bbba2146a0f235f1a9a59fa8",
    "CHEMBL228_Ki": "17158facfdc5788e22e020e398acd3bbf99edc9d66f7b323da778cd551d9796f",
    "CHEMBL231_Ki": "9e1c0a22c37e446d37d63e7b39d92cb022774333b4fa430e9f948b748215afb0",
    "CHEMBL233_Ki": "4d8aff053b3d1c12e8cc13102958bb4f3dce4ac7715452265231e5b68d1c9362",
    "CHEMBL234_Ki": "7a86fc3552953bb1ea727f4119b844ff3eadb33d7a79413b1f417cf236f5615a",
    "CHEMBL235_EC50": "a99b1d18870cc4d83da5fbedfee4504f8c46bb96e71ea7964b84ae7682d4963f",
    "CHEMBL236_Ki": "28227a570694a24325a3206bee2a1623e14949d54abe13e490402fb2f5a8c74e",
    "CHEMBL237_EC50": "37dce21b9ef158ac7d3075997e58896bb0083162c9c820d1996d898dfb0701f5",
    "CHEMBL237_Ki": "8bc5f0f4e512923d7878390f9c6336682dfd638e90d8110f44bfd3af77d605c3",
    "CHEMBL238_Ki": "5ca1bb99ea9123dc0369f19c1269fec3f9fc3eae3bf9a2b781419b268913761a",
    "CHEMBL239_EC50": "1985b2137bd64396ec980e8c6e1f234f6f9aa989c49a20aef71dd22bda68ed9c",
    "CHEMBL244_Ki": "aafc2e81810767397c8b5b3161b9eed3b33b6e9a827ed176336f388bef274a36",
    "CHEMBL262_Ki": "c438e8e18bc444890246607be107d9afb8c64012608a8a73838acad3eacfce21",
    "CHEMBL264_Ki": "6b380b5cf61b6985179779a9b9d0d1d3b197773fc3df5079d8932108f75e2bbf",
    "CHEMBL2835_Ki": "a6ff0b8c3df2c452a9210af5c3d57495846ed16978c339b463c7a4b90c73c66c",
    "CHEMBL287_Ki": "7f448c29138242dd64ec2a07742e33a1e186129ca4e794e287b67e5ffaea171e",
    "CHEMBL2971_Ki": "2fe0c20bab93c58f824fdb7f35b1c327e987b76e8403ededb0075cb7649651d3",
    "CHEMBL3979_EC50": "7e455ec476c0683414404b527d0bb98bf76671f7bd3748507aad505c21a6b44b",
    "CHEMBL4005_Ki": "183b163b6820d2c0db3190500e3a58cdda1f72d148f36605d7c2e2071d69c03e",
    "CHEMBL4203_Ki": "28d7139fdba99657584430ef793bf2850aaf806651930fc062d50f3f847f032d",
    "CHEMBL4616_EC50": "7b79538464cf4a811a9bd593d867d985b3f19d65302f241a7fba409b16230b0a",
    "CHEMBL4792_Ki": "088219b5b08fa90962f00e80d7ed66fe7a71e223b18b874fb000d0babc343659",
}
"""SHA-256 of the table of each target."""


def load(target: str = "CHEMBL234_Ki") -> MoleculeSet:
    """Negative logarithm of the activity on one target.

    Args:
        target: ChEMBL's number of the target and what was measured.

    Raises:
        DataError: No such target, ``MoleculeACE`` or RDKit is not installed, or the table is another one.
    """
    if target not in TARGETS:
        raise DataError(f"target: expected one of MoleculeACE's, got {target!r}{near(target, TARGETS)}")
    path = f"Data/benchmark_data/{target}.csv"
    text = read_shipped("MoleculeACE", path, TARGETS[target], _ADVICE).decode("utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return molecule_set(
        f"MoleculeACE {target}",
        "regression",
        ((row["smiles"], float(row["y"])) for row in rows),
        unit="-log10 nM",
        sha256={path: TARGETS[target]},
        licence="CC BY-SA 3.0 (ChEMBL)",
        source=f"Python package MoleculeACE, {path}",
    )
