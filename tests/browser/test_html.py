"""A report for a browser: what is in it, that it needs and leaks nothing, and that it draws."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import overlapaudit as oa
from overlapaudit.audit import Audit
from overlapaudit.model.document import HiddenSync, Span
from overlapaudit.model.findings import WindowRef
from overlapaudit.model.kinds import Lane
from overlapaudit.model.tables import TableName
from overlapaudit_reports.html.page import html_text
from overlapaudit_reports.html.sections.verdict import verdict
from overlapaudit_reports.html.timeline import LANES, Timeline, timeline
from overlapaudit_reports.wording import windows
from tests.browser.conftest import Open
from tests.browser.parsed import Page
from tests.cli.conftest import Run
from tests.cli.test_hostile import FULL, HOSTILE_NAMES
from tests.tracebuilder import ApiCall, Copy, GraphLaunch, Kernel, Memset, global_pid, make_trace

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "decode_steps.sqlite"
SECTIONS = [
    "verdict", "coverage", "devices", "timeline", "overlap", "hidden-waits", "ranks", "spans",
    "findings",
]  # fmt: skip
BUDGET = 3_000_000


def page_of(path: Path, window: str = "trace") -> str:
    with oa.open_trace(path) as trace:
        return html_text(oa.audit(trace, window=window), [trace])


def page_with(tmp_path: Path, **content: Any) -> str:
    return page_of(make_trace(tmp_path / "trace.sqlite", **content))


def own_part(text: str) -> str:
    """Leave out plotly's script."""
    before, _, rest = text.partition('<script id="plotly">')
    assert rest
    return before + rest.partition("</script>")[2]


def timeline_of(path: Path, window: str = "trace") -> Timeline | None:
    with oa.open_trace(path) as trace:
        return timeline(oa.audit(trace, window=window).document, [trace])


def drawn_of(path: Path, window: str = "trace") -> list[tuple[str, str, int, int, int]]:
    """Give (row, lane, start from the session's, length, count) of each rectangle."""
    found = timeline_of(path, window)
    assert found is not None
    boxes = found.rectangles
    return [
        (found.rows[row].label, LANES[lane], found.origin_ns + start, length, count)
        for row, lane, start, length, count in zip(
            boxes.row, boxes.lane, boxes.start, boxes.length, boxes.count, strict=True
        )
    ]


@pytest.fixture(scope="module")
def sample() -> Page:
    return Page.of(own_part(page_of(SAMPLE)))


def test_sections_in_order(sample: Page) -> None:
    assert [one.attributes["id"] for one in sample.tagged("section")] == SECTIONS
    assert [one.attributes["href"] for one in sample.tagged("a")] == [f"#{id_}" for id_ in SECTIONS]


def test_the_verdict_is_the_figures_of_the_document(sample: Page) -> None:
    (line,) = [one for one in sample.elements if "verdict" in one.classes]
    assert line.text == (
        "2 ranks on 2 devices: busy 89.2 %, idle 10.8 % (818.626 µs of 7,547.555 µs). "
        "14.4 % of the communication (1,182.784 µs) and 88.2 % of the copies (1,258.845 µs) "
        "ran beside work of other lanes. No findings."
    )


def test_idle_time_that_is_unknown_is_called_so(tmp_path: Path) -> None:
    content: dict[str, Any] = {
        "schema": "2023.4",
        "kernels": [Kernel(10_000, 20_000)],
        "api_calls": [ApiCall("cudaGraphLaunch_v10000", 1_000, 2_000)],
    }
    text = page_with(tmp_path, **content)
    assert "idle time unknown, because graph launches left no GPU rows" in text
    assert [row for row, _ in Page.of(own_part(text)).data("timeline-data")["rows"]] == [
        "rank 0 · device 0", "stream 7", "idle unknown",
    ]  # fmt: skip


@pytest.mark.parametrize("lazy", [True, False])
def test_a_trace_without_gpu_work(tmp_path: Path, lazy: bool) -> None:
    text = page_with(tmp_path, lazy=lazy)
    page = Page.of(own_part(text))
    assert "No GPU work in this trace. 1 error, 0 warnings, 0 remarks." in text
    assert [one.attributes["id"] for one in page.tagged("section")] == [
        one for one in SECTIONS if one != "ranks"
    ]
    assert not [one for one in page.elements if one.attributes.get("id") == "timeline-data"]


def test_findings_come_with_evidence_next_step_and_page(tmp_path: Path) -> None:
    page = Page.of(own_part(page_with(tmp_path, kernels=[Kernel(0, 9_000, "frobnicate<int>")])))
    (article,) = page.tagged("article")
    assert "warning OA008 unclassified-kernels" in article.text
    assert "frobnicate<int>" in article.text
    assert "Next: " in article.text
    (explained,) = page.tagged("pre")
    assert explained.text.startswith("# OA008 unclassified-kernels\n")


def test_what_is_not_recorded_comes_with_the_option(sample: Page) -> None:
    said = sample.by_id("coverage").text
    assert "no metrics were sampled--gpu-metrics-devices=all" in said
    assert "420 of 420 (100.0 %)" in said


def _with(audit: Audit, **parts: Any) -> Audit:
    return Audit(replace(audit.document, **parts))


def test_hidden_waits_by_cost_and_spans(tmp_path: Path) -> None:
    def wait(api: str, idle_ns: int | None) -> HiddenSync:
        return HiddenSync("OA501", api, 1 << 24, 1 << 24, "<b>step", 3, 9_000, idle_ns, None)

    with oa.open_trace(SAMPLE) as trace:
        audit = oa.audit(trace)
        waits = (wait("unpriced", None), wait("small", 1_000), wait("large", 2_000_000))
        spans = (Span("iteration", "step<i>", 6, 7_000, 8_000, 5_000, 400),)
        page = Page.of(own_part(html_text(_with(audit, hidden_syncs=waits, spans=spans), [trace])))
        unknown = Page.of(own_part(html_text(_with(audit, hidden_syncs=None), [trace])))
        empty = Page.of(own_part(html_text(_with(audit, hidden_syncs=(), spans=()), [trace])))
    said = page.by_id("hidden-waits").text
    assert said.index("large") < said.index("small") < said.index("unpriced")
    assert "<b>step" in said
    assert "step<i>" in page.by_id("spans").text
    assert "Unknown: " in unknown.by_id("hidden-waits").text
    assert "None found." in empty.by_id("hidden-waits").text


def test_spans_of_which_the_gpu_work_is_unknown(tmp_path: Path) -> None:
    with oa.open_trace(SAMPLE) as trace:
        audit = oa.audit(trace)
        spans = (Span("iteration", "step", 6, 7_000, None, None, None),)
        page = Page.of(own_part(html_text(_with(audit, spans=spans), [trace])))
    assert "unknown" in page.by_id("spans").text


def test_ranks_split_their_collectives(tmp_path: Path) -> None:
    name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    kernels = [
        Kernel(late + n * 1_000_000, n * 1_000_000 + 500_000, name, process=global_pid(process))
        for n in range(1, 6)
        for process, late in ((1, 0), (2, 300_000))
    ]
    page = Page.of(own_part(page_with(tmp_path, kernels=kernels)))
    said = page.by_id("ranks").text
    assert "All ranks were recorded in one session" in said
    assert "within 0.000 µs on all ranks" in said
    rows = [one.text for one in page.tagged("tr") if page.by_id("ranks") in one.parents]
    assert [row.split("AllReduce")[1] for row in rows if "AllReduce" in row] == [
        "551,500.000 µs1,000.000 µs0", "550.000 µs1,000.000 µs5",
    ]  # fmt: skip
    (found,) = [one for one in page.tagged("article") if "OA703" in one.text]
    assert "rank 1" in found.text


def test_one_rank_has_no_section_of_ranks(tmp_path: Path) -> None:
    page = Page.of(own_part(page_with(tmp_path, kernels=[Kernel(1_000, 2_000)])))
    assert "ranks" not in [one.attributes["id"] for one in page.tagged("section")]


def test_windows_are_named() -> None:
    refs = [WindowRef("iteration", number) for number in (41, 42, 44, 50, 51)]
    assert windows(refs) == "iterations 41, 42, 44 and 2 more"
    assert windows(refs[:1]) == "iteration 41"
    assert windows([]) == ""


def test_the_verdict_names_devices_of_which_nothing_is_known() -> None:
    with oa.open_trace(SAMPLE) as trace:
        document = oa.audit(trace).document
    first, second = document.devices or ()
    blind = replace(second, busy_ns=None, idle_ns=None)
    said = verdict(replace(document, devices=(first, blind)))
    assert "(409.083 µs of 3,773.594 µs)" in said
    assert "Idle time is unknown on 1 further device" in said


def test_the_same_bytes_each_time() -> None:
    assert page_of(SAMPLE) == page_of(SAMPLE)


def test_nothing_is_loaded(sample: Page) -> None:
    text = own_part(page_of(SAMPLE))
    assert not re.search(r"https?:|url\(|@import|\bimport\(|fetch\(|XMLHttp", text)
    for element in sample.elements:
        assert element.tag not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        assert "src" not in element.attributes
        assert element.attributes.get("href", "#").startswith("#")
        assert not [key for key in element.attributes if key.startswith("on")]
    (policy,) = [one for one in sample.tagged("meta") if "http-equiv" in one.attributes]
    assert "default-src 'none'" in policy.attributes["content"]
    assert "unsafe-eval" not in policy.attributes["content"]


def test_hostile_names_are_text(tmp_path: Path) -> None:
    path = make_trace(tmp_path / "<img src=x onerror=alert(1)>\x1b.sqlite", **FULL)
    text = own_part(page_of(path))
    assert all(line.isprintable() for line in text.split("\n"))
    page = Page.of(text)
    assert Counter(one.tag for one in page.elements)["script"] == 3
    assert not page.tagged("img")
    assert "<img src=x onerror=alert(1)>\\x1b.sqlite" in page.by_id("verdict").text
    names = page.data("timeline-data")["names"]
    assert "<script>alert(1)</script>" in names
    assert "\\x1b[2J\\x1b]0;owned\\x07\\r\\n\\x00" in names
    assert "(no name)" in names
    assert max(map(len, names)) <= 100
    assert "<script>alert" not in text


def test_a_name_cannot_end_the_script_it_is_in(tmp_path: Path) -> None:
    names = ["</script><script>alert(1)", "<!--", "]]>", "\u2028\u2029"]
    text = page_with(tmp_path, kernels=[Kernel(n, n + 1, name) for n, name in enumerate(names)])
    page = Page.of(own_part(text))
    assert set(page.data("timeline-data")["names"]) == {*names[:3], "\\u2028\\u2029"}
    assert len(page.tagged("script")) == 3


def test_secrets_of_the_capture_stay_in_the_file(tmp_path: Path) -> None:
    secret = "s3cr3t-token"
    text = page_with(
        tmp_path,
        capture_settings=[("PROCESS_0:ENVIRONMENT_VARIABLE", f"HF_TOKEN={secret}")],
        system_env=[("Hostname", secret), ("UserName", secret)],
        **{name: value for name, value in FULL.items() if name != "schema"},
    )
    assert secret not in text
    assert str(tmp_path) not in text


def test_each_operation_has_its_rectangle(tmp_path: Path) -> None:
    path = make_trace(
        tmp_path / "trace.sqlite",
        kernels=[Kernel(1_000, 2_000, "gemm"), Kernel(1_500, 4_000, "gemm", stream=9),
                 Kernel(5_000, 5_000, "empty")],
        copies=[Copy(3_000, 3_500, "h2d")],
        memsets=[Memset(8_000, 9_000)],
    )  # fmt: skip
    assert drawn_of(path) == [
        ("stream 7", "compute", 1_000, 1_000, 1),
        ("stream 7", "compute", 5_000, 0, 1),
        ("stream 7", "copy", 3_000, 500, 1),
        ("stream 7", "memset", 8_000, 1_000, 1),
        ("stream 9", "compute", 1_500, 2_500, 1),
        ("idle", "idle", 4_000, 4_000, 1),
    ]
    found = timeline_of(path)
    assert found is not None
    assert found.thinned == ()
    assert set(found.names) == {"gemm", "empty", "memcpy h2d", "memset"}


def test_the_window_clips(tmp_path: Path) -> None:
    path = make_trace(
        tmp_path / "trace.sqlite", kernels=[Kernel(1_000, 3_000), Kernel(4_000, 9_000)]
    )
    assert drawn_of(path, "2us..5us") == [
        ("stream 7", "compute", 2_000, 1_000, 1),
        ("stream 7", "compute", 4_000, 1_000, 1),
        ("idle", "idle", 3_000, 1_000, 1),
    ]


def test_streams_of_two_contexts_are_two(tmp_path: Path) -> None:
    kernels = [Kernel(0, 9, context=1), Kernel(0, 9, context=2)]
    found = timeline_of(make_trace(tmp_path / "t.sqlite", kernels=kernels))
    assert found is not None
    assert [row.label for row in found.rows] == [
        "rank 0 · device 0", "stream 7 (context 1)", "stream 7 (context 2)", "idle",
    ]  # fmt: skip


def test_the_same_process_in_two_traces_is_two_ranks(tmp_path: Path) -> None:
    paths = [
        make_trace(tmp_path / f"{n}.sqlite", kernels=[Kernel(1_000 * n, 1_000 * n + 500 + n)])
        for n in (1, 2)
    ]
    with oa.open_trace(paths[0]) as first, oa.open_trace(paths[1]) as second:
        found = timeline(oa.audit([first, second]).document, [first, second])
    assert found is not None
    assert [row.label for row in found.rows if row.is_heading] == [
        "rank 0 · device 0", "rank 1 · device 0",
    ]  # fmt: skip
    assert found.rectangles.length == [501, 502]


def test_the_busiest_of_many_streams_are_shown(tmp_path: Path) -> None:
    path = make_trace(
        tmp_path / "t.sqlite", kernels=[Kernel(0, 10 + n, stream=n) for n in range(500)]
    )
    found = timeline_of(path)
    assert found is not None
    assert [row.label for row in found.rows[1:-1]] == [f"stream {n}" for n in range(436, 500)]
    assert found.thinned == ("rank 0 · device 0: the 64 busiest of 500 streams are here.",)


def test_the_first_of_many_devices_are_shown(tmp_path: Path) -> None:
    kernels = [
        Kernel(0, 10, stream=n, process=global_pid(p)) for p in range(1, 101) for n in (7, 8)
    ]
    found = timeline_of(make_trace(tmp_path / "t.sqlite", kernels=kernels))
    assert found is not None
    assert len(found.rows) == 3 * 85
    assert found.thinned[0] == "Only the first 85 of 100 devices are here."
    assert found.thinned[1] == "rank 0 · device 0: the 1 busiest of 2 streams are here."


def test_times_at_the_ends_of_int64(tmp_path: Path) -> None:
    path = make_trace(
        tmp_path / "trace.sqlite",
        kernels=[Kernel(-(1 << 62), -5), Kernel(-10, 1 << 62), Kernel(0, 10, stream=9)],
        copies=[Copy((1 << 63) - 2, (1 << 63) - 1), Copy(-(1 << 63), (1 << 63) - 1, launch=None)],
        duration_ns=(1 << 63) - 1,
    )
    data = Page.of(own_part(page_of(path))).data("timeline-data")
    with oa.open_trace(path) as trace:
        (window_ns,) = [one.window_ns for one in oa.audit(trace).document.devices or ()]
    assert data["span_ns"] == window_ns
    assert 0 <= min(data["length"]) <= max(data["length"]) <= window_ns
    assert min(data["gap"]) >= 0


class _Synthetic:
    """A trace in memory with very many operations."""

    def __init__(self, path: Path, operations: int, names: int) -> None:
        with oa.open_trace(path) as trace:
            self._tables = {name: trace.table(name) for name in TableName}
            self.identity, self.recording = trace.identity, trace.recording
            self.api_calls, self.waits = trace.api_calls, trace.waits
            self.event_records, self.ranges = trace.event_records, trace.ranges
            pattern = trace.operations.head(1)
        chance = np.random.default_rng(1)
        start = np.cumsum(chance.integers(500, 5_000, operations))
        labels = np.array([f"\u4e2d{'é' * 200}{n}" for n in range(names)])
        lanes = np.array([lane.value for lane in (Lane.COMPUTE, Lane.COMM, Lane.COPY)])
        columns = {
            "start_ns": start,
            "end_ns": start + chance.integers(100, 9_000, operations),
            "stream": chance.integers(0, 40, operations),
            "name": labels[chance.integers(0, names, operations)],
            "lane": lanes[chance.integers(0, 3, operations)],
        }
        schema = pattern.schema
        self.operations = pl.concat([pattern] * operations).with_columns(
            pl.Series(name, values).cast(schema[name]) for name, values in columns.items()
        )

    def table(self, name: TableName) -> pl.DataFrame:
        return self._tables[name]


def test_the_size_has_a_bound_and_thinning_is_said(tmp_path: Path) -> None:
    path = make_trace(tmp_path / "trace.sqlite", kernels=[Kernel(0, 9)])
    trace: Any = _Synthetic(path, 300_000, 30_000)
    audit = oa.audit([trace])
    text = own_part(html_text(audit, [trace]))
    assert len(text.encode()) < BUDGET
    said = Page.of(text).by_id("timeline").text
    assert "300,000 operations and" in said
    assert "share one with their neighbours" in said
    assert "names the 2,000 with most time are here" in said


def test_thinning_keeps_counts_and_time(tmp_path: Path) -> None:
    path = make_trace(tmp_path / "trace.sqlite", kernels=[Kernel(0, 9)])
    trace: Any = _Synthetic(path, 120_000, 3)
    document = oa.audit([trace]).document
    found = timeline(document, [trace])
    assert found is not None
    boxes = pl.DataFrame(
        {name: getattr(found.rectangles, name) for name in found.rectangles.__slots__}
    )
    is_idle = pl.col("lane") == LANES.index("idle")
    assert boxes.height <= 50_000
    assert boxes.filter(~is_idle)["count"].sum() == 120_000
    (device,) = document.devices or ()
    assert boxes.filter(is_idle)["covered"].sum() == device.idle_ns
    assert (boxes["covered"] <= boxes["length"]).all()
    assert (boxes["start"] + boxes["length"]).max() == found.span_ns == device.window_ns


def test_the_command_writes_it_beside_the_text(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    done = run("audit", SAMPLE, "--html", target)
    assert (done.status, done.err) == (0, f"Wrote {target}\n")
    assert "rank 0 · device 0" in done.out
    assert target.read_text(encoding="utf-8") == page_of(SAMPLE)
    both = run("audit", SAMPLE, "--html", target, "--json", "-", "--force")
    assert both.out.startswith("{")


def test_targets_that_cannot_be(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    trace = make_trace(tmp_path / "trace.sqlite", kernels=[Kernel(0, 9)])
    for arguments, said in (
        (["--html", "-"], "needs a file"),
        (["--html", target, "--json", tmp_path / "." / "report.html"], "name two files"),
        (["--html", trace, "--force"], "is an input"),
        (["--html", tmp_path / "absent" / "a.html"], "folder does not exist"),
    ):
        refused = run("audit", trace, *arguments)
        assert refused.status == 2
        assert said in refused.complaint
    target.write_text("mine")
    assert "exists" in run("audit", trace, "--html", target).complaint
    assert target.read_text() == "mine"


def _check_drawn(open_page: Open, path: Path) -> Page:
    opened = open_page(path)
    assert opened.console == []
    (body,) = opened.page.tagged("body")
    assert "data-errors" not in body.attributes
    assert body.attributes.get("data-drawn") == "true"
    assert [one for one in opened.page.elements if "main-svg" in one.classes]
    return opened.page


def test_hostile_names_in_a_browser(tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "report.html"
    kernels = [Kernel(n * 9_000, n * 9_000 + 5_000, name) for n, name in enumerate(HOSTILE_NAMES)]
    trace = make_trace(tmp_path / "<b>&amp;.sqlite", **{**FULL, "kernels": kernels})
    path.write_text(page_of(trace), encoding="utf-8")
    page = _check_drawn(open_page, path)
    assert "<b>&amp;.sqlite" in page.by_id("verdict").text
    fills = [one for one in page.elements if "js-fill" in one.classes and one.attributes.get("d")]
    assert len(fills) >= 4  # lanes


def test_buttons_stay_on_this_machine(tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of(SAMPLE), encoding="utf-8")
    page = _check_drawn(open_page, path)
    titles = [one.attributes["data-title"] for one in page.elements if "modebar-btn" in one.classes]
    assert len(titles) == 6
    assert not [title for title in titles if re.search("cloud|share|logo|plotly", title, re.I)]


def test_zooming_draws_what_is_there(tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "report.html"
    # At first both kernels are less than a pixel; then the second fills the figure.
    trace = make_trace(
        tmp_path / "trace.sqlite",
        kernels=[Kernel(0, 10), Kernel(500_000_000, 500_001_000), Kernel(10**9, 10**9 + 10)],
    )
    zoom = (
        "<script>setTimeout(() => { const f = document.getElementById('timeline-figure');"
        "Plotly.relayout(f, {'xaxis.range': [500.0001, 500.0009]}).then(() => setTimeout(() => {"
        "const d = f.data.find((one) => one.name === 'compute');"
        "const tip = new MouseEvent('mousemove', {bubbles: true, clientX: f.getBoundingClientRect()"
        ".left + 600, clientY: f.getBoundingClientRect().top + 40 + 33});"
        "f.dispatchEvent(tip);"
        "document.body.dataset.seen = JSON.stringify([d.x, f.querySelector('.tip').textContent]);"
        "}, 500)); }, 1000)</script></body>"
    )
    path.write_text(page_of(trace).replace("</body>", zoom), encoding="utf-8")
    page = _check_drawn(open_page, path)
    (body,) = page.tagged("body")
    assert body.attributes["data-seen"].startswith("[[500,500,500.001,500.001]")
    assert "from 500.000000 ms, for 1.000 µs" in body.attributes["data-seen"]


def test_a_trace_without_gpu_work_in_a_browser(tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_with(tmp_path), encoding="utf-8")
    opened = open_page(path)
    (body,) = opened.page.tagged("body")
    assert (opened.console, body.attributes.get("data-drawn")) == ([], "true")


def test_opaque_graphs_are_named(tmp_path: Path) -> None:
    text = page_with(tmp_path, graph_launches=[GraphLaunch(10_000, 60_000)])
    assert "What ran inside CUDA graphs was not recorded: 50.000 µs, 100.0 % of the window" in text


def test_no_figure_is_nan(tmp_path: Path) -> None:
    for text in (page_of(SAMPLE), page_with(tmp_path, **FULL)):
        assert "NaN" not in own_part(text)
        assert "Infinity" not in own_part(text)
