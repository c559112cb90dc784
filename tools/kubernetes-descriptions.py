#!/usr/bin/env python3
"""Writes crates/cluster/src/openapi/descriptions.gz: the schemas of every kind, as API servers publish them.

usage: tools/kubernetes-descriptions.py <clone of kubernetes/kubernetes> <git ref> [<folder in it>] > crates/cluster/src/openapi/descriptions.gz

They are those of api/openapi-spec/v3. What values a field may have is not in them: API servers add it, so it is taken from
pkg/generated/openapi/zz_generated.openapi.go (which `make generated_files` writes where it is not in the repository).
Each line is the name of a schema, a tab, the schema.
"""
import gzip
import json
import re
import subprocess
import sys

CLONE, REF, FOLDER = (sys.argv[1:] + [""])[:3]
PLACE = FOLDER.rstrip("/") + "/" if FOLDER else ""
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
REFERENCE = "#/components/schemas/"
# Versions that are served: those that are neither alpha nor beta.
DOCUMENT = re.compile(r"/(api|apis__[a-z0-9.]+)__v[0-9]+_openapi\.json$")


def git(*words):
    done = subprocess.run(["git", "-C", CLONE, *words], check=True, capture_output=True, text=True)
    return done.stdout


def references(schema):
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(REFERENCE)
        for inner in schema.values():
            yield from references(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from references(inner)


def enumerations(text):
    """Type, field, whether it is of the entries of a list, description, values."""
    kind = field = description = None
    for line in text.splitlines():
        if found := re.match(r"func schema_\w*?_?([a-z0-9]+)_(v\w+?)_(\w+)\(ref ", line):
            kind = found.groups()
        elif found := re.match(r'\t{5}"([^"]+)": \{$', line):
            field = found.group(1)
        elif found := re.match(r'\t+Description: +(".*"),$', line):
            description = json.loads(found.group(1))
        elif found := re.match(r"(\t+)Enum: +\[\]interface\{\}\{(.*)\},$", line):
            yield kind, field, len(found.group(1)) > 7, description, json.loads(f"[{found.group(2)}]")


schemas = {}
folder = PLACE + "api/openapi-spec/v3/"
for path in git("ls-tree", "-r", "--name-only", REF, folder).split():
    if DOCUMENT.search(path):
        schemas.update(json.loads(git("show", f"{REF}:{path}"))["components"]["schemas"])

wanted = [
    name
    for name, schema in schemas.items()
    if OBJECT_META in references(schema.get("properties", {}).get("metadata", {}))
    and "x-kubernetes-group-version-kind" in schema
]
found = set()
while wanted:
    name = wanted.pop()
    if name not in found:
        found.add(name)
        wanted.extend(references(schemas[name]))

by_end = {tuple(name.split(".")[-3:]): name for name in found}
for kind, field, of_entries, description, values in enumerations(
    git("show", f"{REF}:{PLACE}pkg/generated/openapi/zz_generated.openapi.go")
):
    schema = schemas[by_end[kind]]["properties"][field] if kind in by_end else None
    if schema is not None:
        schema = schema["items"] if of_entries and "items" in schema else schema
        schema["enum"] = values
        if "Possible enum values" in description:
            schema["description"] = description

text = ""
for name in sorted(found):
    schema = schemas[name]
    schema.pop("x-kubernetes-group-version-kind", None)
    text += f"{name}\t{json.dumps(schema, separators=(',', ':'), sort_keys=True, ensure_ascii=False)}\n"
sys.stdout.buffer.write(gzip.compress(text.encode(), 9, mtime=0))
