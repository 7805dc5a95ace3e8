"""The tables of an nsys 2024.2 SQLite export (schema 3.11.1) that the generator fills.

Columns are in the exporter's order. Notation: `name` is INTEGER, `name:TEXT` another type, and a
trailing `!` means NOT NULL.
"""

from __future__ import annotations

TABLES: dict[str, str] = {
    "StringIds": "id!key value:TEXT!",
    "ThreadNames": "nameId! priority globalTid",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime:TEXT localTime:TEXT",
    "ANALYSIS_DETAILS": "globalVid! duration! startTime! stopTime!",
    "PROCESSES": "globalPid pid name:TEXT",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": (
        "deviceId! contextId! greenContextId streamId! correlationId globalPid eventId!"
    ),
    "PROFILER_OVERHEAD": "start! end! globalTid nameId! returnValue!",
    "NVTX_EVENTS": (
        "start! end eventType! rangeId category color text:TEXT globalTid endGlobalTid textId "
        "domainId uint64Value int64Value doubleValue:REAL uint32Value int32Value floatValue:REAL "
        "jsonTextId jsonText:TEXT"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start! end! eventClass! globalTid correlationId nameId! returnValue! callchainId"
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        "start! end! deviceId! contextId! greenContextId streamId! correlationId globalPid "
        "syncType! eventId!"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start! end! deviceId! contextId! greenContextId streamId! correlationId globalPid bytes! "
        "copyKind! deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId "
        "dstContextId migrationCause graphNodeId virtualAddress"
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        "start! end! deviceId! contextId! greenContextId streamId! correlationId globalPid value! "
        "bytes! graphNodeId memKind"
    ),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start! end! deviceId! contextId! greenContextId streamId! correlationId globalPid "
        "demangledName! shortName! mangledName launchType cacheConfig registersPerThread! gridX! "
        "gridY! gridZ! blockX! blockY! blockZ! staticSharedMemory! dynamicSharedMemory! "
        "localMemoryPerThread! localMemoryTotal! gridId! sharedMemoryExecuted graphNodeId "
        "sharedMemoryLimitConfig"
    ),
    "TARGET_INFO_GPU": (
        "vmId! id! name:TEXT busLocation:TEXT isDiscrete l2CacheSize totalMemory memoryBandwidth "
        "clockRate smCount pwGpuId uuid:TEXT luid chipName:TEXT cuDevice ctxswDevPath:TEXT "
        "ctrlDevPath:TEXT revision nodeMask constantMemory maxIPC maxRegistersPerBlock "
        "maxShmemPerBlock maxShmemPerBlockOptin maxShmemPerSm maxRegistersPerSm threadsPerWarp "
        "asyncEngines maxWarpsPerSm maxBlocksPerSm maxThreadsPerBlock maxBlockDimX maxBlockDimY "
        "maxBlockDimZ maxGridDimX maxGridDimY maxGridDimZ computeMajor computeMinor smMajor smMinor"
    ),
    "TARGET_INFO_CUDA_CONTEXT_INFO": (
        "nullStreamId! hwId! vmId! processId! deviceId! contextId! parentContextId isGreenContext"
    ),
    "TARGET_INFO_CUDA_STREAM": "streamId! hwId! vmId! processId! contextId! priority! flag!",
    "META_DATA_CAPTURE": "name:TEXT! value:TEXT",
    "META_DATA_EXPORT": "name:TEXT! value:TEXT",
}


def column_names(table: str) -> list[str]:
    """Give the columns of a table in the exporter's order."""
    return [spec.split("!")[0].split(":")[0] for spec in TABLES[table].split()]


def create_statement(table: str) -> str:
    """Write the CREATE TABLE statement of one table."""
    columns = ",\n    ".join(_column(spec) for spec in TABLES[table].split())
    return f"CREATE TABLE {table} (\n    {columns}\n)"


def _column(spec: str) -> str:
    """Turn one `name:TYPE!` into SQL."""
    name, _, kind = spec.split("!")[0].partition(":")
    sql = f"{name:<28}{kind or 'INTEGER':<10}"
    if "!" in spec:
        sql += "NOT NULL"
    return sql + ("   PRIMARY KEY" if spec.endswith("!key") else "")
