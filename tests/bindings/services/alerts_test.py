"""The alert rules of samples/prometheus: promtool takes them and each fires when it should, and the service has every metric and label that they name."""

import pathlib
import re
import shutil
import subprocess

from metrics_test import families

ROOT = pathlib.Path(__file__).resolve().parents[3]
RULES = ROOT / "samples/prometheus/dpi.rules.yml"
HERE = pathlib.Path(__file__).parent


def promtool(folder, rules):
    shutil.copy(HERE / "alerts.yml", folder)
    (folder / "dpi.rules.yml").write_text(rules, encoding="utf-8")
    checked = subprocess.run(["promtool", "check", "rules", "dpi.rules.yml"], cwd=folder, capture_output=True, text=True)
    tested = subprocess.run(["promtool", "test", "rules", "alerts.yml"], cwd=folder, capture_output=True, text=True)
    return checked.returncode, tested.returncode, checked.stdout + checked.stderr + tested.stdout + tested.stderr


def test_promtool_takes_the_rules_and_each_fires(tmp_path):
    checked, tested, said = promtool(tmp_path, RULES.read_text(encoding="utf-8"))
    assert checked == tested == 0, said


def test_every_rule_has_a_series_that_it_fires_on():
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8"))
    tests = (HERE / "alerts.yml").read_text(encoding="utf-8")
    fired = [name for name in alerts if re.search(rf"alertname: {name}\n +exp_alerts: \[\{{exp_labels", tests)]
    assert alerts and fired == alerts


def test_a_rule_with_another_threshold_is_noticed(tmp_path):
    """And one that is no rule at all."""
    rules = RULES.read_text(encoding="utf-8")
    assert "dpi_endpoint_refused > 0" in rules
    assert promtool(tmp_path, rules.replace("dpi_endpoint_refused > 0", "dpi_endpoint_refused > 1"))[:2] == (0, 1)
    assert promtool(tmp_path, rules.replace("dpi_endpoint_refused > 0", "dpi_endpoint_refused >"))[0] == 1


# Only models with a host tier have them: metrics_test.py holds the services' text of them to their counters.
WITH_A_STORE = {"dpi_store_up": {"store"}}


def test_the_service_has_what_the_rules_name(fresh):
    assert fresh.score({"rows": [{"day": 4}]})[0] == 400  # an error is counted
    labels = dict(WITH_A_STORE)
    for family in families(fresh).values():
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    for expression in re.findall(r"expr: (.*)", RULES.read_text(encoding="utf-8")):
        names = re.findall(r"\bdpi_\w+", expression)
        assert names and set(names) <= set(labels), expression
        wanted = {label for by in re.findall(r"by \(([^)]*)\)", expression) for label in by.split(", ")} | set(re.findall(r"(\w+)=\"", expression))
        assert wanted - {"job", "instance"} <= set().union(*(labels[name] for name in names)), expression
