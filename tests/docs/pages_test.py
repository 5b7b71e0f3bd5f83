#!/usr/bin/env python3
"""What pages of the guide say and no block of theirs carries out: each text that Troubleshooting quotes is one that the sources make, each status and metric
of it is there; the pod of Kubernetes is YAML whose paths, options and times are those of the sample services; Capacity's requests follow from its times; the alerts of
Observability are those of the rules.

    pages_test.py [--self-test]"""

import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "packaging/doc/guide"
RULES = ROOT / "samples/prometheus/dpi.rules.yml"
SOURCES = ("sdk/src/**/*.cpp", "sdk/tools/**/*.cpp", "capi/include/**/*.h", "capi/src/**/*.cpp", "weights/python/dpi_export/**/*.py", "bindings/python/dpi/*.py",
           "bindings/java/src/main/java/org/dpiframe/*.java", "bindings/go/*.go")
OF_OTHERS = ("libdpi.so.1: cannot open shared object file",)  # the loader's own text


def sources():
    """All of them as one text, in which a literal that goes on in the next line, or around a value, is one."""
    text = "\n".join(path.read_text(encoding="utf-8") for pattern in SOURCES for path in sorted(ROOT.glob(pattern)))
    return re.sub(r"\"\s*\n\s*f?\"", "", text)


def quoted_faults(page, text):
    """Quotations of the first column of Troubleshooting, `... a text ...`, that no source makes."""
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    quoted = [q for cell in cells for q in re.findall(r"`([^`]+)`", cell)]
    parts = [(q, part.strip(" :")) for q in quoted if q not in OF_OTHERS for part in q.split("...")]
    found = [f"Troubleshooting quotes `{q}`: no source has '{part}'" for q, part in parts if part and not _made(part, text)]
    return found if quoted else ["Troubleshooting quotes nothing"]


def _made(part, text):
    """A name between quotation marks is a value in the sources."""
    return all(piece in text for piece in re.split(r"(?<=')\w*(?=')", part) if piece.strip("' )"))


def pod_faults(page, go, java):
    """The YAML of Kubernetes against the services."""
    pods = [yaml.safe_load(block) for block in re.findall(r"(?ms)^```yaml\n(.*?)^```", page)]
    if len(pods) != 1:
        return [f"Kubernetes has {len(pods)} pods, expected one"]
    spec = pods[0]["spec"]["template"]["spec"]
    container, found = spec["containers"][0], []
    options = dict(zip(container["args"][::2], container["args"][1::2]))
    for option in options:
        found += [f"Kubernetes: {where} has no option {option}" for where, text in (("Go", go), ("Java", java)) if not re.search(rf'"{option.lstrip("-")}"|"{option}"', text)]
    paths = [container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe")] + [pods[0]["spec"]["template"]["metadata"]["annotations"]["prometheus.io/path"]]
    found += [f"Kubernetes: {path} is no path of a service" for path in paths if f'"{path}"' not in go or f'"{path}"' not in java]
    ports = {container[probe][how]["port"] for probe, how in (("startupProbe", "httpGet"), ("readinessProbe", "httpGet"), ("livenessProbe", "tcpSocket"))}
    if ports != {container["ports"][0]["containerPort"]} or not options["-listen"].endswith(f":{min(ports)}"):
        found.append(f"Kubernetes: ports {sorted(ports)} do not agree")
    if not spec["terminationGracePeriodSeconds"] > int(options["-grace-seconds"]) + 1:
        found.append("Kubernetes: the pod is killed before the service's own -grace-seconds are over")
    if container["resources"]["requests"] != container["resources"]["limits"]:
        found.append("Kubernetes: requests differ from limits")
    minutes = container["startupProbe"]["periodSeconds"] * container["startupProbe"]["failureThreshold"] / 60
    return found + ([] if f"(here {minutes:g} minutes)" in page else [f"Kubernetes: the startup probe gives {minutes:g} minutes"])


def capacity_faults(page):
    """Each row of the table: requests per second = 0.5 / p50, cut to two digits."""
    rows = re.findall(r"(?m)^\| `(\w+)`[^|]*\|[^|]*\|(.*)\|$", page)
    found = [] if len(rows) == 4 else [f"Capacity has {len(rows)} models, expected 4"]
    for name, cells in rows:
        numbers = [float(cell.replace(",", "")) for cell in cells.split("|")]
        for us, told in zip(numbers[:4], numbers[4:]):
            if not 0.9 * 0.5e6 / us <= told <= 0.5e6 / us:
                found.append(f"Capacity: {name}: {us} us give {0.5e6 / us:.0f} requests a second, told are {told:.0f}")
    return found


def alert_faults(page, rules):
    """The table of alerts of Observability against the rules: names in order, and each `for` in words."""
    told = re.findall(r"(?m)^\| `([A-Z]\w+)` \| (.*) \|$", page)
    groups = yaml.safe_load(rules)["groups"]
    alerts = [(rule["alert"], rule.get("for", "")) for group in groups for rule in group["rules"]]
    if [name for name, _ in told] != [name for name, _ in alerts]:
        return [f"Observability lists the alerts {[name for name, _ in told]}, the rules are {[name for name, _ in alerts]}"]
    words = {"": "", "1m": "1 minute", "5m": "5 minutes", "15m": "15 minutes", "30m": "30 minutes", "1h": "a day before", "1d": "for a day"}
    return [f"Observability: {name} fires after {words[time]}" for (name, text), (_, time) in zip(told, alerts) if words[time] not in text]


def read(name):
    return (GUIDE / name).read_text(encoding="utf-8")


def services():
    return ["\n".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / folder).glob("*"))) for folder in ("samples/go/scoreservice", "samples/java/scoreservice")]


def self_test():
    text, pod, table, both = sources(), read("kubernetes.md"), read("capacity.md"), services()
    alerts, rules = read("observability.md"), RULES.read_text(encoding="utf-8")
    planted = [(quoted_faults("| `no such text of ours` | x |", text), "no source has"), (quoted_faults("", text), "nothing"),
               (pod_faults(pod.replace("path: /health", "path: /healthz"), *both), "/healthz is no path"), (pod_faults(pod.replace('"-follow"', '"-folow"'), *both), "no option -folow"),
               (pod_faults(pod.replace("PeriodSeconds: 30", "PeriodSeconds: 10"), *both), "killed before"), (pod_faults(pod.replace("0.0.0.0:8080", "0.0.0.0:80"), *both), "do not agree"),
               (pod_faults(pod.replace('limits: {cpu: "4"', 'limits: {cpu: "8"'), *both), "differ from limits"), (pod_faults(pod.replace("failureThreshold: 150", "failureThreshold: 15"), *both), "0.5 minutes"),
               (capacity_faults(re.sub(r"(`bank_dcnv2`[^|]*\|[^|]*\| )", r"\g<1>9", table)), "bank_dcnv2"), (capacity_faults(""), "0 models"),
               (alert_faults(alerts.replace("`LoadsFail`", "`LoadFails`"), rules), "lists the alerts"), (alert_faults(alerts, rules.replace("for: 15m", "for: 1h")), "TooFewContexts")]
    missed = [expected for found, expected in planted if not any(expected in f for f in found)]
    print("\n".join(f"not found: {m}" for m in missed) or f"{len(planted)} of {len(planted)} planted faults are found")
    return 1 if missed else 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    found = quoted_faults(read("troubleshooting.md"), sources()) + pod_faults(read("kubernetes.md"), *services()) + capacity_faults(read("capacity.md"))
    found += alert_faults(read("observability.md"), RULES.read_text(encoding="utf-8"))
    print("\n".join([*found, f"{len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
