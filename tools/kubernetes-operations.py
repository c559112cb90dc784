#!/usr/bin/env python3
"""Writes crates/cluster/tests/golden/openapi-operations.json.gz: the paths that API servers publish, to compare with in tests.

usage: tools/kubernetes-operations.py <clone of kubernetes/kubernetes> <git ref> [<folder in it>] > crates/cluster/tests/golden/openapi-operations.json.gz

They are the stable ones of api/openapi-spec, which is written with every feature on: CBOR, which is off by default, is left out.
Under `v2` are the paths and shared parameters of the older form, under `v3` the paths of two documents of the newer one.
"""
import gzip
import json
import re
import subprocess
import sys

CLONE, REF, FOLDER = (sys.argv[1:] + [""])[:3]
PLACE = FOLDER.rstrip("/") + "/" if FOLDER else ""
UNSTABLE = re.compile(r"/v\d+(alpha|beta)\d+/")
# Groups of which nothing is stable, and files of the server's own machine.
ABSENT = re.compile(r"^/(apis/(internal.apiserver|storagemigration).k8s.io/|logs/)")
DOCUMENTS = {"api/v1": "api__v1_openapi.json", "apis/apps/v1": "apis__apps__v1_openapi.json"}


def read(path):
    done = subprocess.run(["git", "-C", CLONE, "show", f"{REF}:{PLACE}{path}"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def without_cbor(value):
    if isinstance(value, dict):
        return {key: without_cbor(inner) for key, inner in value.items() if "cbor" not in key}
    if isinstance(value, list):
        return [without_cbor(inner) for inner in value if not (isinstance(inner, str) and "cbor" in inner)]
    return value


older = without_cbor(read("api/openapi-spec/swagger.json"))
older["parameters"].pop("logpath-Noq7euwC")
paths = {path: item for path, item in older["paths"].items() if not UNSTABLE.search(path) and not ABSENT.search(path)}
golden = {
    "v2": {"paths": paths, "parameters": older["parameters"]},
    "v3": {name: without_cbor(read(f"api/openapi-spec/v3/{file}")["paths"]) for name, file in DOCUMENTS.items()},
}
text = json.dumps(golden, separators=(",", ":"), sort_keys=True)
sys.stdout.buffer.write(gzip.compress(text.encode(), 9, mtime=0))
