"""The SARIF of our reports has what GitHub's code scanning asks for.

The properties and limits are those of GitHub's documentation, "SARIF support for code scanning",
and of the SARIF 2.1.0 standard (OASIS, 2020), sections 3.13 to 3.49.
"""

import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LEVELS = {"none", "note", "warning", "error"}


def problems_of_rule(rule):
    for key in ("shortDescription", "fullDescription", "help"):
        if not rule.get(key, {}).get("text"):
            yield f"rule {rule.get('id')}: {key}.text is missing"
    for key in ("shortDescription", "fullDescription"):
        if len(rule.get(key, {}).get("text", "")) > 1024:
            yield f"rule {rule.get('id')}: {key} is longer than 1024 characters"
    if not rule.get("id") or len(rule.get("name", "")) > 255:
        yield "a rule without id, or with a name that is too long"
    if rule.get("defaultConfiguration", {}).get("level") not in LEVELS:
        yield f"rule {rule.get('id')}: no level"
    properties = rule.get("properties", {})
    if properties.get("precision") not in {"very-high", "high", "medium", "low"}:
        yield f"rule {rule.get('id')}: no precision"
    if properties.get("problem.severity") not in {"error", "warning", "recommendation"}:
        yield f"rule {rule.get('id')}: no severity"
    if len(properties.get("tags", [])) > 20:
        yield f"rule {rule.get('id')}: more than 20 tags"


def problems_of_location(location):
    physical = location.get("physicalLocation", {})
    uri = physical.get("artifactLocation", {}).get("uri", "")
    if not uri or re.search(r"[^A-Za-z0-9%._~/:@!$&'()*+,;=-]", uri):
        yield f"no URI: {uri!r}"
    if uri.startswith(("/", "./")) or "/../" in uri:
        yield f"a URI that is not relative to the repository: {uri}"
    region = physical.get("region", {})
    for key in ("startLine", "startColumn", "endLine", "endColumn"):
        value = region.get(key, 1)
        if not isinstance(value, int) or value < 1:
            yield f"{key} is {value!r}"
    if "startLine" not in region:
        yield "no startLine"


def problems_of_result(result, rules):
    if not result.get("message", {}).get("text"):
        yield "a result without message.text"
    if result.get("level") not in LEVELS:
        yield "a result without level"
    index = result.get("ruleIndex")
    if index is not None and rules[index]["id"] != result["ruleId"]:
        yield f"ruleIndex {index} is not {result['ruleId']}"
    if not result.get("locations"):
        yield "a result without location"
    fingerprint = result.get("partialFingerprints", {}).get("primaryLocationLineHash", "")
    if not re.fullmatch(r"[0-9a-f]{16}:[0-9]+", fingerprint):
        yield f"fingerprint {fingerprint!r}"
    for location in result.get("locations", []):
        yield from problems_of_location(location)


def problems_of(sarif):
    if sarif.get("version") != "2.1.0" or "sarif" not in sarif.get("$schema", ""):
        yield "no version or schema"
    for run in sarif.get("runs", []):
        driver = run.get("tool", {}).get("driver", {})
        if not driver.get("name") or not driver.get("semanticVersion"):
            yield "the tool has no name or version"
        if run.get("columnKind") not in {"unicodeCodePoints", "utf16CodeUnits"}:
            yield "no columnKind"
        rules = driver.get("rules", [])
        for rule in rules:
            yield from problems_of_rule(rule)
        fingerprints = [r.get("partialFingerprints") for r in run.get("results", [])]
        if len({json.dumps(f) for f in fingerprints}) != len(fingerprints):
            yield "two results with one fingerprint"
        for result in run.get("results", []):
            yield from problems_of_result(result, rules)


class Sarif(unittest.TestCase):
    def test_golden_reports(self):
        reports = sorted((ROOT / "tests" / "golden").glob("*/report.sarif"))
        self.assertGreaterEqual(len(reports), 4)
        for report in reports:
            sarif = json.loads(report.read_text(encoding="utf-8"))
            self.assertEqual(list(problems_of(sarif)), [], report.name)

    def test_wrong_ones_are_found(self):
        report = ROOT / "tests" / "golden" / "training_step" / "report.sarif"
        text = report.read_text(encoding="utf-8")
        for old, new in [('"startLine": 3', '"startLine": 0'), ('"uri": "gpt.txt"', '"uri": "/gpt"'),
                         ('"ruleIndex": 1', '"ruleIndex": 0'), ('"level": "warning"', '"level": "bad"'),
                         ("primaryLocationLineHash", "hash"), ("fullDescription", "description")]:
            self.assertIn(old, text)
            self.assertTrue(list(problems_of(json.loads(text.replace(old, new)))), old)


if __name__ == "__main__":
    unittest.main()
