"""Checks a bill of materials against SPDX 2.3 and against the files that it is about. Where the package spdx-tools is installed, its
validator is asked too."""

import hashlib
import json
import re
import tempfile

LICENSES = re.compile(r"^(NOASSERTION|LicenseRef-[\w.-]+|[\w.+-]+( WITH [\w.-]+)?)$")
ID = re.compile(r"^SPDXRef-[A-Za-z0-9.-]+$")
NEEDED = {"SPDXID", "spdxVersion", "dataLicense", "name", "documentNamespace", "creationInfo", "packages", "files", "relationships"}
OF_A_PACKAGE = {"SPDXID", "name", "versionInfo", "downloadLocation", "filesAnalyzed", "licenseConcluded", "licenseDeclared",
                "copyrightText"}
OF_A_FILE = {"SPDXID", "fileName", "checksums", "licenseConcluded", "copyrightText"}


def check(text, read, names, inside):
    """read(name) -> bytes; names: what must be listed, no more; inside: {file name: names of what is linked into it}."""
    bill = json.loads(text)
    fields(bill)
    ids = {e["SPDXID"] for e in bill["packages"] + bill["files"]} | {"SPDXRef-DOCUMENT"}
    assert len(ids) == len(bill["packages"]) + len(bill["files"]) + 1, "an id is used twice"
    for relation in bill["relationships"]:
        assert relation["spdxElementId"] in ids and relation["relatedSpdxElement"] in ids, relation
    digests(bill, read, names)
    linked(bill, inside)
    by_spdx_tools(text)
    return bill


def fields(bill):
    assert NEEDED <= bill.keys(), NEEDED - bill.keys()
    assert bill["spdxVersion"] == "SPDX-2.3" and bill["dataLicense"] == "CC0-1.0" and bill["SPDXID"] == "SPDXRef-DOCUMENT"
    assert re.match(r"^https://[^#]+$", bill["documentNamespace"]), bill["documentNamespace"]
    created = bill["creationInfo"]
    assert re.match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", created["created"]) and created["creators"][0].startswith("Tool: ")
    for package in bill["packages"]:
        assert OF_A_PACKAGE <= package.keys(), package
        assert re.match(r"^\d+(\.\d+)+$", package["versionInfo"]), package
        assert LICENSES.match(package["licenseDeclared"]) and LICENSES.match(package["licenseConcluded"]), package
    for file in bill["files"]:
        assert OF_A_FILE <= file.keys() and file["fileName"].startswith("./"), file
    for element in bill["packages"] + bill["files"]:
        assert ID.match(element["SPDXID"]), element
    defined = {info["licenseId"] for info in bill.get("hasExtractedLicensingInfos", [])}
    named = {p["licenseDeclared"] for p in bill["packages"] if p["licenseDeclared"].startswith("LicenseRef-")}
    assert defined == named, (defined, named)


def digests(bill, read, names):
    listed = [file["fileName"][2:] for file in bill["files"]]
    assert sorted(listed) == sorted(names), set(listed) ^ set(names)
    sums = []
    for file in bill["files"]:
        data = read(file["fileName"][2:])
        got = {c["algorithm"]: c["checksumValue"] for c in file["checksums"]}
        assert got == {"SHA1": hashlib.sha1(data).hexdigest(), "SHA256": hashlib.sha256(data).hexdigest()}, file
        sums.append(got["SHA1"])
    own = next(p for p in bill["packages"] if p["filesAnalyzed"])
    code = hashlib.sha1("".join(sorted(sums)).encode()).hexdigest()
    assert own["packageVerificationCode"]["packageVerificationCodeValue"] == code
    contains = {r["relatedSpdxElement"] for r in bill["relationships"] if r["relationshipType"] == "CONTAINS"}
    assert contains == {file["SPDXID"] for file in bill["files"]}


def linked(bill, inside):
    file_of = {f["SPDXID"]: f["fileName"][2:] for f in bill["files"]}
    package_of = {p["SPDXID"]: p["name"] for p in bill["packages"]}
    got = {}
    for relation in bill["relationships"]:
        if relation["relationshipType"] == "STATIC_LINK":
            got.setdefault(file_of[relation["spdxElementId"]], set()).add(package_of[relation["relatedSpdxElement"]])
    assert got == inside, (got, inside)
    assert set(package_of.values()) == {"dpi"}.union(*inside.values()), package_of


def by_spdx_tools(text):
    try:
        from spdx_tools.spdx.parser.parse_anything import parse_file
        from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
    except ImportError:
        return
    with tempfile.NamedTemporaryFile("w", suffix=".spdx.json") as file:
        file.write(text)
        file.flush()
        messages = validate_full_spdx_document(parse_file(file.name))
    assert not messages, [m.validation_message for m in messages]
    print("valid by spdx-tools")
