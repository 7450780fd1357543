"""Signed releases, and what others sign in their place."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sdc.executor import IN_PROCESS
from sdc.publish.catalogue import SigningKey, sums_files
from sdc.publish.formats import FORMATS
from sdc.run_format import CATALOGUES
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from sdc.stages.verified import verify_folder
from sdc.storage.parquet import write_csv
from sdc.storage.run_folder import write_json
from tests.strategies import CZECH_CSV

STATEMENT, CONFIDENTIAL = "release/statement.intoto.jsonl", "confidential.intoto.jsonl"


def new_key(path: Path) -> Path:
    """A private key, and beside it the public one, as an agency gives it to its readers."""
    private = Ed25519PrivateKey.generate()
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    path.with_suffix(".pub").write_bytes(public)
    return path


def built(folder: Path, **sections: Any) -> Path:
    """The run folder of a build of the Czech auto workers, or of another table."""
    content = {
        "name": "signed",
        "table": {"path": str(CZECH_CSV)},
        "risk": {"min_width": 6},
        "execution": {"cluster": "in-process"},
        "output": {"folder": str(folder / "runs")},
        **sections,
    }
    (folder / "build.yaml").write_text(yaml.safe_dump(content))
    build = open_build(folder / "build.yaml")
    run_all(build, IN_PROCESS)
    return build.folder.path


def signed(folder: Path, **sections: Any) -> Path:
    """The same, signed by key.pem of the folder."""
    about = {"title": "Workers", "period": "1981", "signing_key": "key.pem", **sections.pop("publication", {})}
    return built(folder, publication=about, **sections)


def yearbook(folder: Path, labels: Any = None, **about: Any) -> Path:
    """People by small areas, age and sex, in all formats; area by age is withheld in part."""
    rng = np.random.default_rng(4)
    codes = {"area": np.minimum(rng.geometric(0.375, 800) - 1, 7), "age": np.minimum(rng.poisson(1.5, 800), 4)}
    codes["sex"] = rng.integers(0, 2, 800)
    write_csv(folder / "people.csv", {v: [f"{v}{code:02}" for code in own.tolist()] for v, own in codes.items()})
    return built(
        folder,
        table={"path": "people.csv"},
        risk={"min_width": 3, "small_count": 2},
        release={"require": ["area*age", "area*sex", "age*sex"], "protect": "suppression"},
        publication={"formats": [*FORMATS], **about},
        labels={"variables": labels or {}},
    )


def statement_of(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(base64.b64decode(json.loads(path.read_text())["payload"]))
    return content


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def signed_by(folder: Path, key: SigningKey | None, **told: str) -> None:
    """As its signer would sign what is there now; without a key its checksums alone are made anew."""
    metadata = json.loads((folder / "datapackage.json").read_text()) | told
    for one in metadata["resources"]:
        if "hash" in one:
            old, new = one["hash"].removeprefix("sha256:"), sha(folder / one["path"])
            one["hash"] = f"sha256:{new}"
            for file in (folder / name for name in CATALOGUES if old != new):
                file.write_text(file.read_text().replace(old, new))
    write_json(folder / "datapackage.json", metadata)
    for name, content in sums_files(folder, key, metadata).items():
        (folder / name).write_text(content)


def checks(folder: Path, key: Path) -> dict[str, str]:
    return dict(verify_folder(folder, key))
