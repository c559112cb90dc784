#!/usr/bin/env python3
"""Writes crates/api-machinery/src/openapi/descriptions.gz: the schemas of all that is sent and answered, and the parameters of requests, as API
servers publish them.

usage: tools/kubernetes-descriptions.py <clone of kubernetes/kubernetes> <git ref> [<folder in it>] > crates/api-machinery/src/openapi/descriptions.gz

They are those of api/openapi-spec/v3. What values a field may have is not in them: API servers add it, so it is taken from
pkg/generated/openapi/zz_generated.openapi.go (which `make generated_files` writes where it is not in the repository).
Each line is the name of a schema, a tab, the schema; or `parameter:`, the name of a parameter as API servers share it in their older document
(api/openapi-spec/swagger.json), a tab, the parameter.
"""
import gzip
import json
import re
import subprocess
import sys

CLONE, REF, FOLDER = (sys.argv[1:] + [""])[:3]
PLACE = FOLDER.rstrip("/") + "/" if FOLDER else ""
REFERENCE = "#/components/schemas/"
# Versions that are served: those that are neither alpha nor beta; groups; and the version of the server.
DOCUMENT = re.compile(r"/(apis|version|(api|apis__[a-z0-9.]+)(__v[0-9]+)?)_openapi\.json$")
# Parameters that are written out wherever they are, and a path that has them.
WRITTEN_OUT = ["dryRun", "fieldValidation"]
CREATED = "/api/v1/namespaces/{namespace}/pods"


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
wanted = []
folder = PLACE + "api/openapi-spec/v3/"
for path in git("ls-tree", "-r", "--name-only", REF, folder).split():
    if DOCUMENT.search(path):
        document = json.loads(git("show", f"{REF}:{path}"))
        schemas.update(document["components"].get("schemas", {}))
        wanted.extend(references(document["paths"]))

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

lines = {}
for name in found:
    schemas[name].pop("x-kubernetes-group-version-kind", None)
    lines[name] = schemas[name]
older = json.loads(git("show", f"{REF}:{PLACE}api/openapi-spec/swagger.json"))
parameters = dict(older["parameters"])
parameters.update((one["name"], one) for one in older["paths"][CREATED]["post"]["parameters"] if one.get("name") in WRITTEN_OUT)
lines.update((f"parameter:{name}", parameter) for name, parameter in parameters.items())

text = ""
for name in sorted(lines):
    text += f"{name}\t{json.dumps(lines[name], separators=(',', ':'), sort_keys=True, ensure_ascii=False)}\n"
sys.stdout.buffer.write(gzip.compress(text.encode(), 9, mtime=0))
