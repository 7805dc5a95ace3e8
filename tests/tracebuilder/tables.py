"""The tables of an export, and the versions in which each has which columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tests.tracebuilder.enums import ENUMS
from tests.tracebuilder.layout import Column, Table, in_version, table
from tests.tracebuilder.versions import Schema

_POOL: Final = """localMemoryPoolReleaseThreshold:u64{0} localMemoryPoolSize:u64{0}
    localMemoryPoolUtilizedSize:u64{0}"""
_NODE: Final = "start:i64! end:i64! eventClass! globalTid:u64 nameId:u64!"
_MPI: Final = "start:i64! end:i64 globalTid:u64 textId"
_SWITCHES: Final = "tag:i32! vmId! seqNo! contextId! timestamp:i64! globalPid:u64 gpuId"

_TABLES: Final = (
    table("StringIds", "id:i32!* value:text!"),
    table("ThreadNames", "nameId:u64! priority:u64 globalTid:u64"),
    table("ProcessStreams", "globalPid:u64! filenameId! contentId!"),
    table(
        "TARGET_INFO_SYSTEM_ENV",
        """globalVid:u64!@..3.7.2 globalVid:u64@3.7.2 devStateName:text! name:text! nameEnum:i32!
        value:text!""",
    ),
    table(
        "TARGET_INFO_SESSION_START_TIME",
        """utcEpochNs:u64 utcTime:text localTime:text systemClockNs:u64@3.24.14
        sessionStartCntVctNs:u64@3.28.1""",
    ),
    table("ANALYSIS_DETAILS", "globalVid:u64! duration:u64! startTime:u64! stopTime:u64!"),
    table(
        "TARGET_INFO_GPU",
        """vmId:i64! id! name:text busLocation:text isDiscrete:bool l2CacheSize totalMemory:u64
        memoryBandwidth:u64 clockRate smCount pwGpuId uuid:text luid:u64 chipName:text cuDevice:i32
        ctxswDevPath:text ctrlDevPath:text revision nodeMask constantMemory maxIPC
        maxRegistersPerBlock maxShmemPerBlock maxShmemPerBlockOptin maxShmemPerSm maxRegistersPerSm
        threadsPerWarp asyncEngines maxWarpsPerSm maxBlocksPerSm maxThreadsPerBlock maxBlockDimX
        maxBlockDimY maxBlockDimZ maxGridDimX maxGridDimY maxGridDimZ computeMajor computeMinor
        smMajor smMinor numaNodeId@3.28.1""",
    ),
    table(
        "TARGET_INFO_CUDA_DEVICE",
        "gpuId cudaId! pid! uuid:text@3.24.14 numMultiprocessors@3.24.14",
        since="3.17.1",
    ),
    table(
        "TARGET_INFO_NVTX_CUDA_STREAM",
        "name:text! hwId! vmId! processId! deviceId! contextId! streamId!",
    ),
    table(
        "TARGET_INFO_CUDA_NULL_STREAM",
        "streamId! hwId! vmId! processId! deviceId! contextId!",
        until="3.7.2",
    ),
    table(
        "TARGET_INFO_CUDA_CONTEXT_INFO",
        """nullStreamId! hwId! vmId! processId! deviceId! contextId! parentContextId
        isGreenContext:bool numMultiprocessors@3.24.14 numTpcs@3.28.1 tpcMask:text@3.28.1
        workqueueResourceId@3.28.1 workqueueConcurrencyLimit@3.28.1 workqueueSharingScope@3.28.1
        workqueueChannelCount@3.28.1 workqueueChannelIds:text@3.28.1""",
        since="3.7.2",
    ),
    table(
        "TARGET_INFO_CUDA_STREAM",
        "streamId! hwId! vmId! processId! contextId! priority! flag!",
    ),
    table("META_DATA_CAPTURE", "name:text! value:text", since="3.7.2"),
    table("META_DATA_EXPORT", "name:text! value:text", since="3.7.2"),
    table("EXPORT_META_DATA", "name:text! value:text", until="3.7.2"),
    table(
        "TARGET_INFO_GPU_METRICS",
        "typeId:u64! sourceId:u64! typeName:text! metricId! metricName:text!",
        since="3.7.2",
    ),
    table(
        "GPU_METRICS",
        "rawTimestamp:i64@3.28.1 timestamp:i64 typeId:u64! metricId! value:i64!",
        since="3.7.2",
    ),
    table(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        """start:i64! end:i64! deviceId! contextId:u64! greenContextId:u64@3.7.2 streamId:u64!
        correlationId globalPid:u64 bytes:u64! copyKind:u64! deprecatedSrcId srcKind dstKind
        srcDeviceId srcContextId dstDeviceId dstContextId migrationCause graphNodeId:u64
        virtualAddress:u64 copyCount:u64@3.20.2""",
    ),
    table(
        "CUPTI_ACTIVITY_KIND_MEMSET",
        """start:i64! end:i64! deviceId! contextId:u64! greenContextId:u64@3.7.2 streamId:u64!
        correlationId globalPid:u64 value! bytes:u64! graphNodeId:u64 memKind""",
    ),
    table(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        """start:i64! end:i64! deviceId! contextId:u64! greenContextId:u64@3.7.2 streamId:u64!
        correlationId globalPid:u64 demangledName:u64! shortName:u64! mangledName:u64 launchType
        cacheConfig registersPerThread! gridX:i32! gridY:i32! gridZ:i32! blockX:i32! blockY:i32!
        blockZ:i32! staticSharedMemory:i32! dynamicSharedMemory:i32! localMemoryPerThread:i32!
        localMemoryTotal:i32! gridId:i64! sharedMemoryExecuted graphNodeId:u64
        sharedMemoryLimitConfig qmdBulkReleaseDone:u64@3.24.0 qmdPreexitDone:u64@3.24.0
        qmdLastCtaDone:u64@3.24.0 graphId@3.24.0 clusterX@3.24.0 clusterY@3.24.0 clusterZ@3.24.0
        clusterSchedulingPolicy@3.24.0 maxPotentialClusterSize@3.24.0 maxActiveClusters@3.24.0
        sharedMemoryRequestedPercentage@3.24.14 tensorSizeMinusOneElements:text!@3.25.0""",
    ),
    table(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        """start:i64! end:i64! deviceId! contextId:u64! greenContextId:u64@3.7.2 streamId:u64!
        correlationId globalPid:u64 deprecatedSyncType@3.17.1 syncType! eventId!
        eventSyncId@3.17.1""",
    ),
    table(
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
        """timestamp:i64@3.24.0 deviceId! contextId:u64! greenContextId:u64@3.7.2 streamId:u64!
        correlationId globalPid:u64 eventId! eventSyncId@3.24.0""",
    ),
    table(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        """start:i64! end:i64! eventClass! globalTid:u64 correlationId nameId:u64! returnValue!
        callchainId:i64""",
    ),
    table(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        """start:i64! end:i64! deviceId! contextId:u64! greenContextId:u64 streamId:u64!
        correlationId globalPid:u64 graphId! graphExecId!""",
        since="3.11.1",
    ),
    # The same name for two things: the creation of nodes, and later that of graphs.
    table(
        "CUDA_GRAPH_EVENTS",
        f"""{_NODE} graphNodeId:u64!@..3.11.1 originalGraphNodeId:u64@..3.11.1 graphId@3.11.1
        originalGraphId@3.11.1 graphExecId@3.11.1""",
    ),
    table(
        "CUDA_GRAPH_NODE_EVENTS",
        f"{_NODE} graphNodeId:u64! originalGraphNodeId:u64",
        since="3.11.1",
    ),
    table(
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        f"""start:i64! globalPid:u64! deviceId! contextId:u64! address:u64! pc:u64! bytes:u64!
        memKind! memoryOperationType! name:text correlationId streamId:u64@3.28.1
        localMemoryPoolAddress:u64@3.0.0 {_POOL.format("@3.0.0")}
        importedMemoryPoolAddress:u64@3.0.0 importedMemoryPoolProcessId:u64@3.0.0""",
    ),
    table(
        "CUDA_GPU_MEMORY_POOL_EVENTS",
        f"""start:i64! globalPid:u64! deviceId! address:u64! operationType! poolType! correlationId
        minBytesToKeep:u64 {_POOL.format("")}""",
        since="3.0.0",
    ),
    table(
        "CUDA_CALLCHAINS",
        "id:i64!* symbol! module! unresolved:bool originalIP:u64 stackDepth:i32!*",
    ),
    table("MPI_RANKS", "globalTid:u64! rank:i32!", since="3.7.2"),
    table(
        "MPI_COLLECTIVES_EVENTS",
        f"{_MPI} commHandle:u64 rootRank:i32 size:u64 recvSize:u64 requestHandle:u64",
        since="3.7.2",
    ),
    table(
        "MPI_P2P_EVENTS",
        f"{_MPI} commHandle:u64 tag:i32 remoteRank:i32 size:u64 requestHandle:u64",
        since="3.7.2",
    ),
    table(
        "NVTX_EVENTS",
        """start:i64! end:i64 eventType! rangeId:u64 category:u64 color text:text globalTid:u64
        endGlobalTid:u64 textId domainId:u64 uint64Value:u64 int64Value:i64 doubleValue:f64
        uint32Value int32Value:i32 floatValue:f32 jsonTextId jsonText:text binaryData:text@3.16.1
        eventId:i64!*@3.28.1""",
    ),
    table(
        "NVTX_PAYLOAD_SCHEMAS",
        "domainId:u64 schemaId:u64 name:text type flags numEntries payloadSize:u64 alignTo",
        since="3.25.0",
    ),
    table(
        "NVTX_PAYLOAD_SCHEMA_ENTRIES",
        """domainId:u64! schemaId:u64! idx! flags type:u64 name:text description:text
        arrayOrUnionDetail:u64 offset:u64""",
        since="3.25.0",
    ),
    table(
        "OSRT_API",
        """start:i64! end:i64! eventClass! globalTid:u64 nameId:u64! returnValue! nestingLevel
        callchainId:i64! argumentsId:i64!@3.24.0""",
    ),
    table(
        "PROFILER_OVERHEAD",
        """start:i64! end:i64! globalTid:u64 nameId:u64! returnValue!@..3.24.0
        overheadType!@3.24.0""",
    ),
    table(
        "CUPTI_ACTIVITY_KIND_OVERHEAD",
        "start:i64! end:i64! eventClass! globalTid:u64 correlationId nameId:u64 overheadType!",
        since="3.24.0",
    ),
    table(
        "SCHED_EVENTS",
        "start:i64! cpu! isSchedIn:bool! globalTid:u64 threadState@3.13.2 threadBlock@3.13.2",
    ),
    table("GPU_CONTEXT_SWITCH_EVENTS", _SWITCHES, since="3.7.2"),
    table("FECS_EVENTS", _SWITCHES, until="3.7.2"),
    table("PROCESSES", "globalPid:u64 pid:u64 name:text"),
    table(
        "DIAGNOSTIC_EVENT",
        """timestamp:i64! timestampType:i32! source:i32! severity:i32! text:text! globalPid:u64""",
        since="3.11.1",
    ),
    table(
        "ANALYSIS_FILE",
        """id:i32!* filename:text!@..3.16.1 filename:text@3.16.1 content:text!@..3.16.1
        contentId@3.16.1 globalPid:u64!""",
        since="3.11.1",
    ),
    table(
        "CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS",
        """start:i64! end:i64! eventClass! deviceId! contextId:u64! streamId:u64! correlationId
        globalPid:u64 ChannelID sourceBytes:u64 NumberOfOperations""",
        since="3.28.1",
    ),
    table(
        "CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE_AND_HOST_LAUNCH",
        """start:i64! end:i64! deviceId! contextId:u64! greenContextId:u64 streamId:u64!
        correlationId globalPid:u64 graphNodeId:u64 graphId""",
        since="3.28.1",
    ),
    table(
        "CUDA_HOST_CALLBACK",
        "start:i64! end:i64! eventClass! globalTid:u64 correlationId nameId:u64",
        since="3.28.1",
    ),
    table(
        "CUPTI_ACTIVITY_KIND_JIT",
        """start:i64! end:i64! eventClass! globalTid:u64 correlationId nameId:u64 overheadType!
        jitEntryType! jitOperationType! deviceId jitOperationCorrelationId cacheSize:u64
        cachePath:text""",
        since="3.28.1",
    ),
)

TABLES: Final[dict[str, Table]] = {each.name: each for each in (*_TABLES, *ENUMS)}


def columns_in(schema: Schema) -> dict[str, tuple[Column, ...]]:
    """Give the tables that a version has, each with its columns in order."""
    return {
        each.name: tuple(column for column in each.columns if in_version(schema, column))
        for each in TABLES.values()
        if in_version(schema, each)
    }


def check_columns(name: str, columns: Iterable[str]) -> None:
    """Refuse the name of a table or a column that no version has.

    Raises:
        ValueError: there is no such table or column.
    """
    if name not in TABLES:
        raise ValueError(f"no table {name!r} in any version")
    unknown = set(columns) - {each.name for each in TABLES[name].columns}
    if unknown:
        raise ValueError(f"no column {min(unknown)!r} in {name}")
