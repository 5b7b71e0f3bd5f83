"""What became of a chaos run: every call against the oracle, its deadline and the faults in force; every fault against what the engineer on call
said. Reads the files that the run left; nothing of it is known to the library."""

import bisect
import json
import math

from models import Oracle

LATE_S, RECOVERY_S, BUSY_S = 0.1, 5.0, 0.2
# What may be said of a fault beside its own name. A cluster that replaces a server sends callers on; a server that ends is silent for a moment;
# eviction is loss of rows until the store has been asked why. A busy machine is slow whatever else is wrong.
ALSO = {"kill": {"moved", "no answer", "rows lost"}, "stop": {"moved", "node down"}, "empty": set(), "password": set(),
        "evict": {"rows lost"}, "slow": {"no answer"}, "reshard": set(), "disk": set()}
NAMES = {"kill": "node down", "stop": "no answer", "empty": "rows lost", "password": "login refused", "evict": "evicted", "slow": "slow",
         "reshard": "moved", "disk": "disk full"}
MOVES = ("kill", "stop", "reshard")  # a slot that has moved is found out when one of its rows is asked for, which may be much later
AFTER_S = 3.0  # a sign may be seen so much later: metrics every 0.1 s, `dpi store stat` every second and as long as it takes


class Control:
    """What two threads that only sleep saw of this machine."""

    def __init__(self, samples):
        self.samples = sorted(samples)
        self.begins = [s[0] for s in self.samples]

    def of(self, begin, end):
        first = max(0, bisect.bisect_left(self.begins, begin - 1.0))
        return [late for at, late in self.samples[first:bisect.bisect_right(self.begins, end)] if at + late + 0.02 >= begin]

    def worst(self, begin, end):
        return max(self.of(begin - 0.05, end + 0.05), default=math.inf)

    def lost(self, begin, end):
        """Seconds of that time in which threads that could run did not."""
        return sum(late for late in self.of(begin, end) if late > 0.01)


class Judge:
    def __init__(self, folder, bundle):
        self.folder, self.oracle, self.complaints = folder, Oracle(bundle), []
        self.control = Control(json.loads((folder / "control.json").read_text()))
        self.calls = [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]
        self.faults = json.loads((folder / "faults.json").read_text())
        self.diagnoses = [json.loads(line) for line in (folder / "diagnoses.jsonl").read_text().splitlines()]
        self.counters = json.loads((folder / "counters.json").read_text())
        self.summary = {}

    def complain(self, text):
        self.complaints.append(text)

    def run(self):
        self.scores()
        self.deadlines()
        self.recovery()
        self.names()
        return self.complaints

    def scores(self):
        """Scores are right ones, or of rows that stand in where the model may do that, and those are counted."""
        seen = {name: {t: [0, 0] for t in ("users", "items")} for name in self.counters}
        for call in self.calls:
            call["bad"] = call["code"] != 0
            if call["code"]:
                for count in seen[call["model"]].values():
                    count[1] += len(call["users"])  # a call that failed may have counted before
                continue
            if len(call["scores"]) != len(call["users"]):
                self.complain(f"wrong score: {call['model']} gave {len(call['scores'])} scores for {len(call['users'])} rows")
            for i, fits in enumerate(self.oracle.made_of(call["scores"], call["users"], call["items"])):
                if not fits or (call["model"] != "default" and (False, False) not in fits):
                    what = "of rows that stand in" if fits else "of no rows at all"
                    self.complain(f"wrong score: {call['model']}, user {call['users'][i]}, item {call['items'][i]}: {call['scores'][i]!r} is {what}")
                elif (False, False) not in fits:
                    call["bad"] = call["bad"] or (False, True) not in fits
                    for k, table in enumerate(("users", "items")):
                        count = seen[call["model"]][table]
                        count[0] += all(mask[k] for mask in fits)
                        count[1] += any(mask[k] for mask in fits)
                else:
                    for k, table in enumerate(("users", "items")):
                        seen[call["model"]][table][1] += any(mask[k] for mask in fits)
        for model, tables in seen.items():
            for tier in self.counters[model]["tiers"]:
                counted, (least, most) = tier["defaulted"], tables[tier["name"]]
                if not least <= counted <= most or tier["down"] > counted:
                    self.complain(f"not counted: {model}, {tier['name']}: {least} to {most} rows stood in, the counters say {counted}")
        self.summary["stood_in"] = {m: {t: c[0] for t, c in tables.items()} for m, tables in seen.items()}

    def deadlines(self):
        worst = 0.0
        for call in self.calls:
            over = call["end"] - call["begin"] - call["deadline_ms"] / 1000
            allowed = LATE_S + 2 * self.control.worst(call["begin"], call["end"])
            worst = max(worst, over)
            if not over <= allowed:
                self.complain(f"late: {call['model']} answered {over * 1000:.0f} ms after its deadline of {call['deadline_ms']} ms, "
                              f"{allowed * 1000:.0f} ms are allowed; code {call['code']} {call.get('text', '')}")
        self.summary["latest_ms"] = round(worst * 1000)

    def recovery(self):
        """From 5 s after a store is back to the next fault every call is right; before the first fault, too."""
        begins = [f["begin"] for f in self.faults] + [math.inf]
        spans = [("the start", 0.0, self.calls[0]["planned"] if self.calls else 0.0, begins[0])]
        for f, until in zip(self.faults, begins[1:]):
            spans.append((f["kind"], f["back"], f["back"] + RECOVERY_S + self.control.lost(f["back"], f["back"] + RECOVERY_S), until))
        for (what, back, since, until) in spans:
            bad = [c for c in self.calls if c["bad"] and back <= c["planned"] < until and not self.excused(c)]
            good = sum(not c["bad"] for c in self.calls if back <= c["planned"] < until)
            if good == 0:
                self.complain(f"no recovery: not one call is right after {what}")
            late = [c for c in bad if c["planned"] > since]
            if late:
                c = late[-1]
                self.complain(f"no recovery: {len(late)} calls after {what} was over for {since - back:.1f} s; the last {c['planned'] - back:.1f} s "
                              f"after it: {c['model']}, code {c['code']} {c.get('text', 'rows stood in')}")
            for f in self.faults:
                if f["back"] == back:
                    f["recovered_s"] = round(max((c["end"] - back for c in bad), default=0.0), 2)

    def excused(self, call):
        """The machine stood still for half of the call's time."""
        return call["code"] in (0, 9, 11) and self.control.worst(call["planned"], call["end"]) > call["deadline_ms"] / 2000

    def names(self):
        moved = set()
        for f, until in zip(self.faults, [f["begin"] for f in self.faults[1:]] + [math.inf]):
            end = min(f["back"] + AFTER_S + self.control.lost(f["begin"], f["back"]), until)
            said = [d for d in self.diagnoses if f["begin"] <= d["at"] < end]
            f["said"] = {k: sum(d["kind"] == k for d in said) for k in sorted({d["kind"] for d in said})}
            name = NAMES[f["kind"]]
            first = next((d for d in said if d["kind"] == name), None)
            if first is None:
                self.complain(f"not named: {f['kind']} ({f['what']}) for {f['back'] - f['begin']:.1f} s; it was called {f['said'] or 'nothing'}")
            else:
                f["named_after_s"], f["why"] = round(first["at"] - f["begin"], 2), first["why"]
            moved |= {"moved"} if f["kind"] in MOVES else set()
            wrong = {d["kind"]: d for d in said if d["kind"] not in ALSO[f["kind"]] | {name, "slow"} | moved and not self.busy(d["at"])}
            for kind, d in wrong.items():
                self.complain(f"called by a wrong name: {f['kind']} ({f['what']}): {kind}: {d['why']}")
            quiet = [d for d in self.diagnoses if end <= d["at"] < until and d["kind"] not in {"slow"} | moved and not self.busy(d["at"])]
            for d in {d["kind"]: d for d in quiet}.values():
                self.complain(f"named without a fault, {d['at'] - f['back']:.1f} s after {f['kind']} was over: {d['kind']}: {d['why']}")
        for d in self.diagnoses:
            if d["at"] < self.faults[0]["begin"] and not self.busy(d["at"]):
                self.complain(f"named without a fault, before the first: {d['kind']}: {d['why']}")

    def busy(self, at):
        """Servers look as good as dead to each other and to callers when nobody gets a processor."""
        return self.control.worst(at - 5, at) > BUSY_S
