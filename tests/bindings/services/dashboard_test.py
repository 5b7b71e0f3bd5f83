"""The dashboard of samples/prometheus: Grafana's fields are there, and a Prometheus that scrapes the running service answers every query of every panel with data."""

import http.server
import itertools
import json
import math
import pathlib
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import client
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
DASHBOARD = ROOT / "samples/prometheus/dashboard.json"
# Only models with a host tier have these, and the services have no option for one. Their page is the library's text of made-up counters, which
# tests/runtime/metrics_page_test.cpp holds to what the library writes.
TIERED = ROOT / "tests/runtime/made_up_counters.txt"
OF_TIERS = re.compile(r"dpi_(?:tier|store)_\w+")
RANGE = "5m"
CONFIG = """
global: {{scrape_interval: 3s, scrape_timeout: 3s}}
scrape_configs:
  - {{job_name: service, static_configs: [{{targets: ["127.0.0.1:{service}", "127.0.0.1:{heavy}"]}}]}}
  - {{job_name: tiered, static_configs: [{{targets: ["127.0.0.1:{tiered}"]}}]}}
"""


def panels():
    return [p for p in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"] if p["type"] != "row"]


def queries():
    """(panel, expression), with Grafana's variables as it fills them in where everything is chosen."""
    found = [(p["title"], t["expr"]) for p in panels() for t in p["targets"]]
    return [(title, re.sub(r"\$(job|instance|endpoint)\b", ".*", e).replace("$__rate_interval", RANGE)) for title, e in found]


def test_grafana_has_what_it_needs():
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    assert board["uid"] and board["title"] and board["schemaVersion"] >= 30
    variables = {v["name"]: v for v in board["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource" and variables["datasource"]["query"] == "prometheus"
    ids = [p["id"] for p in board["panels"]]
    assert len(ids) == len(set(ids)) and all(p["gridPos"].keys() == {"h", "w", "x", "y"} for p in board["panels"])
    cells = [(x, y) for p in board["panels"] for g in [p["gridPos"]] for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24, "panels overlap"
    for panel in panels():
        assert panel["title"] and panel["targets"] and panel["type"] in ("timeseries", "table"), panel
        assert all(t["expr"] and t["refId"] and t["datasource"]["uid"] == "${datasource}" for t in panel["targets"]), panel["title"]
        assert len({t["refId"] for t in panel["targets"]}) == len(panel["targets"])
    used = set(re.findall(r"\$(\w+)", " ".join(t["expr"] for p in panels() for t in p["targets"])))
    assert used == {"job", "instance", "endpoint", "__rate_interval"} <= set(variables) | {"__rate_interval"}


class Tiered(http.server.BaseHTTPRequestHandler):
    """made_up_counters.txt as an endpoint's page, whose counters grow from scrape to scrape."""

    scrapes = itertools.count(1)

    def do_GET(self):
        text = "".join(line + "\n" for line in TIERED.read_text(encoding="utf-8").splitlines() if OF_TIERS.search(line))
        grown = next(self.scrapes)
        text = re.sub(r"(?m)^(\w+_total\{.*\}) (\S+)$", lambda m: f"{m[1]} {grown * float(m[2])}", text)
        body = re.sub(r"(?m)^(dpi_\w+\{)", r'\1endpoint="scoreservice",', text).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Prometheus:
    def __init__(self, folder, service, heavy, tiered):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        (folder / "prometheus.yml").write_text(CONFIG.format(service=service, heavy=heavy, tiered=tiered), encoding="utf-8")
        with open(folder / "prometheus.log", "wb") as log:
            self.process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log)

    def values(self, query):
        """Those of its answer that are numbers."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(url, timeout=client.TIMEOUT) as answer:
                result = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as e:
            return f"{e.code}: {e.read().decode()}"
        return [v for v in (float(series["value"][1]) for series in result) if math.isfinite(v)]

    def has(self, query):
        assert self.process.poll() is None, "Prometheus has ended"
        try:
            return bool(self.values(query))
        except OSError:
            return False  # it does not listen yet

    def end(self):
        self.process.kill()
        self.process.wait(client.TIMEOUT)


def load(service, heavy, stop):
    """Requests of one client, some of which the model refuses; then those of eight clients, which take long enough to share chunks."""
    def run(to, rows, count):
        connection = to.connect()
        for _ in range(count):
            connection.request("POST", "/score", json.dumps({"rows": rows}))
            client.answer_of(connection)
        connection.close()

    while not stop.wait(0.1):
        run(service, [{"uid": 7}, {"uid": 8, "tag": "red"}], 40)
        run(service, [{"day": 4}], 10)
        threads = [threading.Thread(target=run, args=(heavy, [{"history": ["1038", "1026"], "area": "1034", "visits": 2}] * 512, 10)) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


@pytest.fixture(scope="module")
def prometheus(bundle, tmp_path_factory):
    """Prometheus after some scrapes of two services under load."""
    folder = tmp_path_factory.mktemp("prometheus")
    stop = threading.Event()
    tiered = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tiered)
    threading.Thread(target=tiered.serve_forever, daemon=True).start()
    options = ("-batch", "on", "-client-seconds", "60", "-scoring-millis", "60000")
    for service in client.started(bundle, folder / "log", *options):
        for heavy in client.started(ROOT / "weights/demo/msweb_deepfm.h5", folder / "heavy_log", *options):
            loading = threading.Thread(target=load, args=(service, heavy, stop))
            started = Prometheus(folder, service.port, heavy.port, tiered.server_address[1])
            try:
                client.eventually(lambda: started.has('count_over_time(up{job="service"}[5m]) >= 1'), "the service is not scraped")
                loading.start()
                for family in ("dpi_stage_seconds_count", "dpi_chunk_rows_count", "dpi_errors_total", "dpi_http_requests_total"):
                    client.eventually(lambda f=family: started.has(f"rate({f}[{RANGE}]) > 0"), f"{family} does not rise")
                client.eventually(lambda: started.has(f"rate(dpi_tier_hits_total[{RANGE}]) > 0"), "the made-up tier is not scraped")
                yield started
            finally:
                stop.set()
                started.end()
                if loading.ident:
                    loading.join(client.TIMEOUT)
                tiered.shutdown()


def without_data(prometheus, asked):
    """Queries that have none until the time is over: a scrape that a busy machine missed takes all series away until the next one."""
    deadline = time.monotonic() + client.TIMEOUT
    while True:
        asked = [(title, query, found) for title, query, *_ in asked for found in [prometheus.values(query)] if not isinstance(found, list) or not found]
        if not asked or time.monotonic() > deadline:
            return asked
        time.sleep(1)


def test_every_query_of_every_panel_returns_data(prometheus):
    assert len(queries()) > 40
    assert without_data(prometheus, queries()) == []


def test_what_the_service_measures_comes_from_the_service(prometheus):
    """Only queries of tiers and stores may be answered by the made-up page."""
    asked = [(title, query.replace('job=~".*"', 'job="service"')) for title, query in queries() if not OF_TIERS.search(query)]
    assert len(asked) > 30
    assert without_data(prometheus, asked) == []


def test_a_misspelt_family_and_a_broken_query_are_noticed(prometheus):
    for _, query in queries():
        family = re.search(r"dpi_\w+", query).group()
        assert prometheus.values(query.replace(family, family.replace("dpi_", "dpi_x"))) == [], query
    assert "parse error" in prometheus.values(queries()[0][1] + ")")
