"""Ranges into levels and phases: each bundled rule, its domain, and where it must not apply."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlapaudit.classify.kernel_rules import KernelRules
from overlapaudit.classify.range_rule import FOREIGN_LEVELS, KNOWN_LEVELS
from overlapaudit.classify.range_rules import RANGE_MEANING, RangeRules, classify_ranges
from overlapaudit.model.errors import UsageError
from overlapaudit.model.tables import RANGES, TableName, conform, empty

RULES = RangeRules.load()
TRT = "TensorRT-LLM"
Found = tuple[str | None, ...]

# domain, text -> level, phase, engine, key, facts
SAMPLES: list[tuple[str | None, str, Found]] = [
    ("overlapaudit", "iteration.step|tokens=512,requests=8",
     ("iteration", "step", "overlapaudit", None, "tokens=512,requests=8")),
    ("overlapaudit", "mech.migration.stage",
     ("mech", "migration.stage", "overlapaudit", None, None)),
    ("overlapaudit", "request.prefill|", ("request", "prefill", "overlapaudit", None, None)),
    (None, "execute_context_2(700)_generation_14(14)", ("iteration", "step", "vllm", None, None)),
    (None, "execute_714_context_2(sq700sk900sqsq490000sqsk630000)"
           "_generation_14(sq14sk9000sqsq14sqsk9000)", ("iteration", "step", "vllm", None, None)),
    (None, "gpu_model_runner: preprocess", ("iteration", "metadata_h2d", "vllm", None, None)),
    (None, "gpu_model_runner: forward", ("iteration", "model", "vllm", None, None)),
    (None, "gpu_model_runner: sample", ("iteration", "sample", "vllm", None, None)),
    (None, "gpu_model_runner: bookkeep", ("iteration", "result_d2h", "vllm", None, None)),
    (None, "gpu_model_runner: AsyncGPUModelRunnerOutput",
     ("iteration", "result_d2h", "vllm", None, None)),
    (None, "gpu_model_runner: new stage", ("iteration", "new stage", "vllm", None, None)),
    (None, "schedule: allocate_slots", ("iteration", "schedule", "vllm", None, None)),
    (None, "llm_engine step: get_output", ("request", "frontend", "vllm", None, None)),
    (None, "ngram_proposer_gpu: kernel", ("iteration", "draft", "vllm", None, None)),
    (None, "eplb: move experts", ("iteration", "eplb", "vllm", None, None)),
    (None, "{'Module': 'model.layers.3.mlp', 'Outputs': [[1, 8]]}",
     ("drop", "module_output", "any", None, None)),
    (None, "{'Module': 'model.layers.31.self_attn', 'Inputs': [[1, 8]]}",
     ("layer", "module", "vllm|sglang", 31, None)),
    (None, "{'Torch Compiled Module (fullgraph)': 'model.layers.7'}",
     ("layer", "module", "vllm|sglang", 7, None)),
    (None, "{'Module': 'model.embed_tokens'", ("layer", "module", "vllm|sglang", None, None)),
    (None, "capture_64_FULL", ("capture", "graph_capture", "vllm", 64, None)),
    (None, "scheduler.recv_requests", ("iteration", "frontend", "sglang", None, None)),
    (None, "scheduler.run_batch", ("iteration", "launch", "sglang", None, None)),
    (None, "scheduler.idle", ("iteration", "idle", "sglang", None, None)),
    (None, "primary0", ("mech", "tbo_stage", "sglang", 0, None)),
    (None, "a12", ("mech", "tbo_stage", "sglang", 12, None)),
    (None, "step[DECODE bs=32]", ("iteration", "step", "sglang", None, None)),
    (None, "step[EXTEND bs=2 toks=512 x]", ("iteration", "step", "sglang", None, None)),
    (None, "copy_result_to_cpu", ("iteration", "result_d2h", "sglang", None, None)),
    (None, "draft_extend", ("iteration", "draft", "sglang", None, None)),
    (None, "send_proxy_dict_to_next_stage", ("mech", "pp_p2p", "sglang", None, None)),
    (None, "dispatch_a", ("layer", "dispatch", "sglang", None, None)),  # tried inside a stage
    (None, "shared_experts", ("layer", "shared", "sglang", None, None)),
    (None, "mhc_prepare_attn", ("layer", "attn", "sglang", None, None)),
    (None, "Layer_17", ("layer", "layer", "mini-sglang", 17, None)),
    (None, "MHA", ("layer", "attn", "mini-sglang", None, None)),
    (None, "LMHead", ("layer", "lm_head", "mini-sglang", None, None)),
    (TRT, "[Executor] _forward_step 17: 2 ctx reqs, 900 ctx tokens, 30 gen reqs",
     ("iteration", "model", "trtllm", 17, None)),
    (TRT, "[Executor] _forward_step: 2 ctx reqs, 30 gen reqs",
     ("iteration", "model", "trtllm", None, None)),
    (TRT, "_fetch_and_activate_new_requests", ("iteration", "frontend", "trtllm", None, None)),
    (TRT, "_schedule", ("iteration", "schedule", "trtllm", None, None)),
    (TRT, "_prepare_tp_inputs", ("iteration", "metadata_h2d", "trtllm", None, None)),
    (TRT, "_sample_async", ("iteration", "sample", "trtllm", None, None)),
    (TRT, "_handle_first_token_response", ("iteration", "process", "trtllm", None, None)),
    (TRT, "_handle_canceled_requests", ("request", "cancel", "trtllm", None, None)),
    (TRT, "_check_disagg_gen_cache_transfer_status", ("request", "xfer", "trtllm", None, None)),
    (TRT, "tokenize prompt", ("request", "frontend", "trtllm", None, None)),
    (None, "AsyncNoOverlap", ("mech", "AsyncNoOverlap", "megatron", None, None)),
    (None, "Decode", ("iteration", "step", "megatron", None, None)),
    (None, "async_sched_forward_pass", ("iteration", "model", "megatron", None, None)),
    (None, "EP-dummy-forward", ("mech", "dummy_forward", "megatron", None, None)),
    (None, "transfer_samples_to_cpu", ("iteration", "result_d2h", "megatron", None, None)),
    (None, "add_request_with_kv_handoff", ("request", "frontend", "megatron", None, None)),
    (None, "megatron.core.transformer.attention.Attention.forward",
     ("layer", "forward", "megatron", None, None)),
    ("lmcache", "LMCacheEngine.retrieve_layer", ("cache", "l2_l1", "lmcache", None, None)),
    ("lmcache", "LocalDiskBackend.get_blocking", ("cache", "l3_l2", "lmcache", None, None)),
    ("lmcache", "Connector.wait_for_layer_load", ("cache", "wait", "lmcache", None, None)),
    ("lmcache", "Connector.something_new", ("cache", "other", "lmcache", None, None)),
    ("dynamo", "mm_frontend:encode:image", ("request", "encode:image", "dynamo", None, None)),
    ("NCCL", "ncclAllReduce", ("api", "coll_enqueue", "nccl", None, None)),
    ("NCCL", "ncclGroupEnd", ("api", "nccl_misc", "nccl", None, None)),
    ("cuBLAS", "cublasLtMatmul", ("api", "lib", "cublas", None, None)),
    ("cuDNN", "cudnnConvolutionForward", ("api", "lib", "cudnn", None, None)),
    (None, "aten::add, op_id = 314359", ("op", "op", "torch", None, None)),
    (None, "c10d::allreduce_", ("op", "op", "torch", None, None)),
]  # fmt: skip

SCOPED = {"overlapaudit", "TensorRT-LLM", "lmcache", "dynamo", "NCCL", "cuBLAS", "cuDNN"}


def ranges_of(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Give ranges of one thread, each after the other where a row says nothing else."""
    filled = [
        {
            "kind": "push_pop", "domain": None, "domain_id": 0, "process": 1, "thread": 1,
            "start_ns": 100 * n, "end_ns": 100 * n + 50, "payload": None, **row,
        }
        for n, row in enumerate(rows)
    ]  # fmt: skip
    return conform(pl.DataFrame(filled, schema=RANGES, strict=False), RANGES)


def found(rows: Sequence[dict[str, Any]], rules: RangeRules = RULES) -> list[Found]:
    return classify_ranges(ranges_of(rows), rules).select(*RANGE_MEANING).rows()


def meaning_of(text: str, domain: str | None = None, rules: RangeRules = RULES) -> Found:
    (one,) = found([{"text": text, "domain": domain}], rules)
    return one


def user_rules(folder: Path, *ranges: dict[str, Any]) -> RangeRules:
    path = folder / "mine.json"
    path.write_text(json.dumps({"ranges": ranges}))
    return RangeRules.load(path)


NOTHING: Found = (None,) * 5


@pytest.mark.parametrize(("domain", "text", "means"), SAMPLES)
def test_each_documented_text(domain: str | None, text: str, means: Found) -> None:
    stage = {"text": "b0", "start_ns": 0, "end_ns": 1_000, "domain": domain}
    row = {"text": text, "start_ns": 10, "end_ns": 20, "domain": domain}
    assert found([stage, row])[1] == means


def test_each_bundled_rule_wins_a_sample() -> None:
    winners = {
        id(rule)
        for domain, text, _ in SAMPLES
        for rule, _ in RULES.of_domain(domain).matches(text.partition(", op_id")[0])[:1]
    }
    lost = [rule.pattern.pattern for rule in RULES.rules if id(rule) not in winners]
    assert lost == []


def test_the_short_cut_by_first_character_loses_no_rule() -> None:
    for domain, text, _ in SAMPLES:
        counted = [rule for rule in RULES.rules if rule.domain in (None, domain)]
        slow = [rule for rule in counted if rule.meaning(text)]
        quick = [rule for rule, _ in RULES.of_domain(domain).matches(text)]
        assert quick == slow[: len(quick)]
        assert bool(quick) == bool(slow)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^ab|c", "c"), ("^a?b", "b"), ("^a*b", "b"), ("^a{0,1}b", "b"), ("(?i)^ab", "AB"),
        (r"^a[\](]|b[\])]", "b)"), ("^a(?#[)|c(?#])", "c"), ("^a(b|c)d", "acd"), ("b", "ab"),
        (r"^\wa", "xa"), (r"^\{a", "{a"), ("^[ab]c", "bc"), ("^(?:a|b)c", "bc"),
        ("(?m)^b", "a\nb"), ("^a+b", "aab"), (r"^a\|b", "a|b"), ("^a[|]b", "a|b"),
    ],
)  # fmt: skip
def test_no_pattern_is_cut_short(tmp_path: Path, pattern: str, text: str) -> None:
    rules = user_rules(tmp_path, {"level": "layer", "phase": "mine", "re": pattern})
    assert meaning_of(text, None, rules)[:2] == ("layer", "mine")


def test_names_of_a_domain_do_not_leak() -> None:
    scoped = [text for domain, text, _ in SAMPLES if domain in SCOPED]
    for domain in (None, "somebody's"):
        rows = [{"text": text, "domain": domain} for text in scoped]
        assert set(found(rows)) == {NOTHING}


def test_a_rule_without_a_domain_holds_in_any() -> None:
    assert meaning_of("Layer_3", "mine")[:2] == ("layer", "layer")


def test_levels_are_ours_or_known_to_be_foreign() -> None:
    assert {rule.level for rule in RULES.rules} <= {*KNOWN_LEVELS, "$level"}
    assert not set(FOREIGN_LEVELS) & {"request", "iteration", "layer", "cache", "mech"}


def test_our_levels_alone_count_in_our_domain() -> None:
    assert meaning_of("op.add", "overlapaudit") == NOTHING
    assert meaning_of("request.prefill,x", "overlapaudit") == NOTHING


@pytest.mark.parametrize(
    "suffix",
    [
        ", seq = 12",
        ", op_id = 7",
        ", seq = 12, op_id = 7",
        ", seq = 12, op_id = 7, sizes = [[2, 3], []], input_op_ids = [(1,0), (2,0)]",
        ", sizes = [[2, 3]]",
    ],
)
def test_the_suffix_of_emit_nvtx_is_taken_off(suffix: str) -> None:
    assert meaning_of("aten::add" + suffix)[0] == "op"
    assert meaning_of("Layer_4" + suffix)[3] == 4
    assert meaning_of("copy_result_to_cpu" + suffix)[:2] == ("iteration", "result_d2h")
    assert meaning_of("copy_result_to_cpu" + suffix + "x") == NOTHING


def test_key_is_the_payload_else_the_number_in_the_text() -> None:
    rows = [
        {"text": "Layer_4"},
        {"text": "Layer_4", "payload": 9},
        {"text": "layer.attn", "domain": "overlapaudit", "payload": 0},
        {"text": "unknown", "payload": 9},
        {"text": "Layer_9223372036854775807"},
        {"text": "Layer_9223372036854775808"},
        {"text": "Layer_" + "9" * 5_000},
    ]
    assert [one[3] for one in found(rows)] == [4, 9, 0, None, 2**63 - 1, None, None]


def test_a_map_says_phases_in_our_words(tmp_path: Path) -> None:
    rules = user_rules(
        tmp_path,
        {"level": "$l", "phase": "$p", "re": "^my_(?P<l>[a-z]+)_(?P<p>[a-z]+)?(?P<id>[0-9]*)$",
         "map": {"fwd": "model"}},
        {"level": "layer", "phase": "$p", "re": "^her (?P<p>.*)$", "map": {"x": "attn"},
         "else": "rest", "engine": "hers"},
    )  # fmt: skip
    said = [
        meaning_of(text, None, rules)[:4]
        for text in ("my_iteration_fwd7", "my_layer_norm", "my_nothing_fwd", "my_layer_5")
    ]
    assert said == [
        ("iteration", "model", None, 7),
        ("layer", "norm", None, None),
        NOTHING[:4],
        NOTHING[:4],
    ]
    assert meaning_of("her x", None, rules)[:3] == ("layer", "attn", "hers")
    assert meaning_of("her y", None, rules)[:3] == ("layer", "rest", "hers")


def test_user_rules_go_first(tmp_path: Path) -> None:
    rules = user_rules(tmp_path, {"level": "layer", "phase": "mine", "re": "add"})
    assert meaning_of("aten::add", None, rules)[:3] == ("layer", "mine", None)
    assert meaning_of("aten::sub", None, rules)[:3] == ("op", "op", "torch")


STAGE = {"text": "a3", "start_ns": 100, "end_ns": 200}


@pytest.mark.parametrize(
    ("row", "inside"),
    [
        ({"start_ns": 110, "end_ns": 190}, True),
        ({"start_ns": 100, "end_ns": 200}, True),
        ({"start_ns": 99, "end_ns": 190}, False),
        ({"start_ns": 110, "end_ns": 201}, False),
        ({"start_ns": 300, "end_ns": 310}, False),
        ({"start_ns": 110, "end_ns": 190, "thread": 2}, False),
        ({"start_ns": 110, "end_ns": 190, "domain_id": 1}, False),
        ({"start_ns": 110, "end_ns": None}, True),  # not closed: where it began decides
        ({"start_ns": 200, "end_ns": None}, False),
        ({"start_ns": 150, "end_ns": None, "kind": "mark"}, True),
        ({"start_ns": None, "end_ns": None}, False),
    ],
)
def test_operations_count_inside_their_stage_alone(row: dict[str, Any], inside: bool) -> None:
    expected = ("layer", "attn", "sglang", None, None) if inside else NOTHING
    assert found([STAGE, {"text": "attn", **row}])[1] == expected
    assert found([{"text": "attn", **row}, STAGE])[0] == expected


@pytest.mark.parametrize(
    ("stage", "inside"),
    [
        ({"end_ns": None}, True),  # open when the capture ended
        ({"end_ns": None, "kind": "mark"}, False),
        ({"text": "a3 of it"}, False),
        ({"start_ns": None}, False),
        ({"thread": None}, False),
    ],
)
def test_what_can_hold_an_operation(stage: dict[str, Any], inside: bool) -> None:
    rows = [STAGE | stage, {"text": "attn", "start_ns": 120, "end_ns": 130}]
    assert (found(rows)[1] != NOTHING) == inside


def test_a_short_stage_before_does_not_hide_the_one_around() -> None:
    rows = [
        {"text": "a0", "start_ns": 0, "end_ns": 1_000},
        {"text": "b1", "start_ns": 10, "end_ns": 20},
        {"text": "core", "start_ns": 30, "end_ns": 40},
    ]
    assert found(rows)[2][:2] == ("layer", "attn")


def test_a_stage_without_a_beginning_lends_its_end_to_no_other() -> None:
    rows = [
        {"text": "a0", "start_ns": None, "end_ns": 1_000},
        {"text": "b1", "start_ns": 10, "end_ns": 20},
        {"text": "core", "start_ns": 30, "end_ns": 40},
    ]
    assert found(rows)[2] == NOTHING


def test_a_rule_for_inside_comes_before_what_the_text_means_elsewhere(tmp_path: Path) -> None:
    rules = user_rules(
        tmp_path,
        {"level": "cache", "phase": "first", "re": "^x$", "only_inside": "never"},
        {"level": "cache", "phase": "wait", "re": "^x$", "only_inside": "tbo_stage"},
        {"level": "cache", "phase": "later", "re": "^x$", "only_inside": "tbo_stage"},
        {"level": "cache", "phase": "store", "re": "^x$"},
    )
    inside = {"text": "x", "start_ns": 110, "end_ns": 120}
    outside = {"text": "x", "start_ns": 300, "end_ns": 310}
    assert [one[1] for one in found([inside, STAGE, outside], rules)] == [
        "wait", "tbo_stage", "store",
    ]  # fmt: skip


def test_no_text_no_domain() -> None:
    rows = [{"text": None}, {"text": ""}, {"text": None, "domain": "NCCL"}, {"text": "Layer_1"}]
    assert found(rows) == [NOTHING] * 3 + [("layer", "layer", "mini-sglang", 1, None)]


def test_no_ranges_have_the_columns_all_the_same() -> None:
    nothing = classify_ranges(empty(TableName.RANGES), RULES)
    assert nothing.schema == pl.Schema(RANGES)
    some = classify_ranges(ranges_of([{"text": "unknown"}]), RULES)
    assert some.schema == nothing.schema


HOSTILE = [
    "x" * 10_000,
    "megatron.core." + "a." * 5_000 + "!",
    "{'Module': '" + "a" * 10_000,
    "{'Module'" + " " * 5_000 + ":" + " " * 5_000,
    "{'Module': 'a'" + "}" * 5_000 + "\nx",
    "step[A bs=1 toks=1" + "]" * 5_000 + "\n!",
    "step[" + "A" * 10_000,
    "aten::" + "a::" * 4_000 + "!",
    "nccl" + "GroupStart" * 1_000 + "!",
    "execute_context_" + "1" * 10_000,
    "gpu_model_runner: " + "a " * 5_000 + "!",
    "iteration." + "." * 10_000 + "!",
    "iteration.step|" + "|" * 10_000 + "\n!",
    "a, seq = " * 1_500 + "!",
    "a, sizes = [" * 1_000 + "]!",
    "a" + ", op_id = 1" * 1_000 + "!",
    "\x00\x01\x1b[31m\u202e\ud7ff<script>",
    "layer.attn\x00|\x1b",
    "b" + "٣" * 30,
]


def test_hostile_texts_are_quick_and_change_nothing() -> None:
    rows = [
        {"text": text, "domain": domain}
        for text in HOSTILE
        for domain in (
            None,
            "overlapaudit",
            "lmcache",
            "NCCL",
            "TensorRT-LLM",
            "\x00",
            "x" * 10_000,
        )
    ]
    frame = ranges_of(rows)
    begun = time.perf_counter()
    seen = classify_ranges(frame, RULES)
    assert time.perf_counter() - begun < 5
    assert seen.drop(*RANGE_MEANING).equals(frame.drop(*RANGE_MEANING))


def test_many_different_texts_are_quick() -> None:
    count = 50_000
    kinds = ["aten::add{}", "some name {}", "Layer_{}", "megatron.core.x.f{}", "a{}", "attn{}"]
    rows = pl.DataFrame(
        {
            "text": [kinds[n % len(kinds)].format(n) for n in range(count)],
            "domain": [f"domain {n}" for n in range(count)],
            "thread": [1] * count,
            "start_ns": range(count),
            "end_ns": range(1, count + 1),
        }
    )
    classify_ranges(conform(rows, RANGES), RULES)  # at once; a regex that backtracks never ends


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.sampled_from(
                ["a0", "b1", "attn", "core", "Layer_1", "aten::add, seq = 1", "x", "", None]
            ),
            "domain": st.sampled_from([None, "NCCL", "overlapaudit"]),
            "domain_id": st.sampled_from([0, 1, None]),
            "thread": st.sampled_from([1, 2, None]),
            "kind": st.sampled_from(["push_pop", "start_end", "mark"]),
            "start_ns": st.one_of(st.none(), st.integers(0, 20)),
            "end_ns": st.one_of(st.none(), st.integers(0, 30)),
            "payload": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        }
    )
)


@settings(deadline=None)
@given(ROWS)
def test_rows_stay_as_they_are_and_stages_hold_what_lies_in_them(
    rows: list[dict[str, Any]],
) -> None:
    frame = ranges_of(rows)
    seen = classify_ranges(frame, RULES)
    assert seen.drop(*RANGE_MEANING).equals(frame.drop(*RANGE_MEANING))
    phases = seen["phase"].to_list()
    for row, phase in zip(rows, phases, strict=True):
        if row["text"] in ("attn", "core"):
            assert (phase == "attn") == any(_holds(stage, row) for stage in rows)


def _holds(stage: dict[str, Any], row: dict[str, Any]) -> bool:
    """Say by the definition whether a row lies inside a stage of its thread and domain."""
    place = ("thread", "domain_id")
    if stage["text"] not in ("a0", "b1") or stage["kind"] == "mark":
        return False
    if any(stage[name] != row[name] for name in place):
        return False
    if stage["start_ns"] is None or row["start_ns"] is None:
        return False
    if stage["start_ns"] > row["start_ns"]:
        return False
    if stage["end_ns"] is None:
        return True
    if row["end_ns"] is None:
        return bool(row["start_ns"] < stage["end_ns"])
    return bool(row["end_ns"] <= stage["end_ns"])


GOOD = {"level": "layer", "phase": "attn", "re": "x"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("1" * 5_000, "not JSON"),
        ('{"ranges": [], "ranges": []}', "the key 'ranges' comes twice"),
        ("[]", "expected"),
        ("{}", "expected"),
        ('{"note": "x"}', "expected"),
        ('{"ranges": [], "range": []}', "unknown key 'range'"),
        ('{"ranges": {}}', '"ranges" must be a list'),
        ('{"ranges": null}', '"ranges" must be a list'),
    ],
)
def test_files_that_hold_no_rules_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        RangeRules.load(path)
    assert str(refused.value).startswith("mine.json: ")
    assert said in str(refused.value)
    if said != '"ranges" must be a list':  # the other kind of rules does not look at these
        with pytest.raises(UsageError):
            KernelRules.load(path)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (["layer", "x"], "must be {"),
        ({"level": "layer", "re": "x"}, "has no phase"),
        ({**GOOD, "color": "red"}, "unknown key 'color'"),
        ({**GOOD, "\n\x1b" + "k" * 500: 1}, "unknown key '\\n\\x1b"),
        ({**GOOD, "re": "("}, "broken pattern"),
        ({**GOOD, "re": "x{4294967296}"}, "broken pattern"),
        ({**GOOD, "re": 1}, "re must be a regular expression, not 1"),
        ({**GOOD, "level": "layers"}, "level must be one of request"),
        ({**GOOD, "level": ["layer"]}, "level must be one of request"),
        ({**GOOD, "level": "$l"}, "level is '$l', but re has no group of that name"),
        ({**GOOD, "phase": "$p"}, "phase is '$p', but re has no group of that name"),
        ({**GOOD, "phase": "a b"}, "phase must be a word"),
        ({**GOOD, "phase": ""}, "phase must be a word"),
        ({**GOOD, "phase": None}, "phase must be a word"),
        ({**GOOD, "map": {"a": "b"}}, "a map needs a phase"),
        ({**GOOD, "re": "(?P<p>x)", "phase": "$p", "map": []}, "map must be"),
        ({**GOOD, "re": "(?P<p>x)", "phase": "$p", "map": {"a": 1}}, "map must be a word"),
        ({**GOOD, "else": "b"}, "else needs a map"),
        ({**GOOD, "domain": 3}, "domain must be the name"),
        ({**GOOD, "engine": "\ud800"}, "engine must be a word"),
        ({**GOOD, "only_inside": "a|b"}, "only_inside must be a word"),
    ],
)
def test_broken_rules_are_refused(tmp_path: Path, rule: object, said: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"ranges": [GOOD, rule]}))
    with pytest.raises(UsageError) as refused:
        RangeRules.load(path)
    text = str(refused.value)
    assert text.startswith("mine.json: range rule 2")
    assert said in text
    assert text.isprintable()
    assert len(text) < 250


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.json: cannot read the rules"):
        RangeRules.load(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8 text"):
        RangeRules.load(tmp_path / "bytes.json")


def test_one_file_may_hold_both_kinds_of_rules_or_either(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    bundled = len(KernelRules.load().rules), len(RULES.rules)
    for content, added in (
        ({"rules": [["mine", "x"]], "ranges": [GOOD, GOOD], "note": "both"}, (1, 2)),
        ({"rules": [["mine", "x"]]}, (1, 0)),
        ({"ranges": [GOOD]}, (0, 1)),
    ):
        path.write_text(json.dumps(content))
        loaded = len(KernelRules.load(path).rules), len(RangeRules.load(path).rules)
        assert loaded == (bundled[0] + added[0], bundled[1] + added[1])


def test_a_pattern_that_a_later_python_may_read_otherwise_says_nothing(tmp_path: Path) -> None:
    rules = user_rules(tmp_path, {**GOOD, "re": "[[a]x"})
    assert meaning_of("ax", None, rules)[0] == "layer"


def test_the_bundled_file_is_all_there() -> None:
    assert len(RULES.rules) == 43
    assert [rule.engine for rule in RULES.rules[:2]] == ["overlapaudit", "vllm"]
    assert RULES.rules[-1].engine == "torch"
