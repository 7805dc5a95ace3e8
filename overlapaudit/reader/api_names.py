"""What a CUDA call does, told from its name."""

from __future__ import annotations

import re

import polars as pl

from overlapaudit.model.kinds import ApiKind

# cudaLaunchKernel_ptsz_v7000: runtime names carry the version of their ABI and, where the
# program was built with per-thread default streams, _ptsz or _ptds.
_SUFFIX = re.compile(r"(?P<per_thread>_ptsz|_ptds)?(?:_v\d{4,5})?$")

# Ordered; first match wins. Matched at the start of the name without its suffix; cu* are the
# driver's calls, whose own _v2 and _v3 may follow.
_KINDS = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"cu(da)?GraphLaunch", ApiKind.GRAPH_LAUNCH),
        (r"cu(da)?Launch(?!HostFunc)", ApiKind.LAUNCH),
        (r"cu(da)?Memcpy", ApiKind.COPY),
        (r"cu(da)?Memset", ApiKind.MEMSET),
        (r"cu(da)?EventRecord", ApiKind.EVENT_RECORD),
        (r"cu(da)?StreamWaitEvent", ApiKind.STREAM_WAIT),
        (r"cu(da)?EventSynchronize", ApiKind.EVENT_SYNC),
        (r"cu(da)?StreamSynchronize", ApiKind.STREAM_SYNC),
        (r"cudaDeviceSynchronize|cuCtxSynchronize|cudaThreadSynchronize", ApiKind.DEVICE_SYNC),
        (r"cu(da)?(Event|Stream)Query", ApiKind.QUERY),
        (r"cu(da)?StreamBeginCapture", ApiKind.CAPTURE_BEGIN),
        (r"cu(da)?StreamEndCapture", ApiKind.CAPTURE_END),
        (r"cuda(Malloc|HostAlloc|HostRegister)|cuMem(Host)?(Alloc|Create)|cuMemHostRegister",
         ApiKind.ALLOCATE),
        (r"cuda(Free|HostUnregister)|cuMemFree|cuMemHostUnregister|cuMemRelease"
         r"|cuMemUnmap|cu(da)?MemPoolTrimTo", ApiKind.FREE),
        (r"cuModule(Load|Unload|GetFunction)|cu(da)?Library(Load|Unload|GetKernel)|cuLink"
         r"|cuKernelGetFunction", ApiKind.MODULE_LOAD),
        (r"cu(da)?Graph(Instantiate|Upload)", ApiKind.GRAPH_BUILD),
    )
)  # fmt: skip


def strip_suffix(name: str) -> tuple[str, bool]:
    """Give the name without its version, and whether it is the per-thread-stream variant."""
    match = _SUFFIX.search(name)
    if match is None or not match.group():
        return name, False
    return name[: match.start()], match["per_thread"] is not None


def kind_of(stripped: str) -> ApiKind:
    """Tell the kind of a call from its name without suffix."""
    for pattern, kind in _KINDS:
        if pattern.match(stripped):
            return kind
    return ApiKind.OTHER


def describe(names: pl.Series) -> pl.DataFrame:
    """Give `name`, `kind`, `per_thread_stream` for each of a few distinct raw names."""
    stripped = [strip_suffix(name) for name in names.to_list()]
    return pl.DataFrame(
        {
            "name": pl.Series([name for name, _ in stripped], dtype=pl.Categorical),
            "kind": pl.Series(
                [kind_of(name).value for name, _ in stripped],
                dtype=pl.Enum([kind.value for kind in ApiKind]),
            ),
            "per_thread_stream": pl.Series([flag for _, flag in stripped], dtype=pl.Boolean),
        }
    )
