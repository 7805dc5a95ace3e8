"""GPU work but for copies: kernels, graph launches and what 2026.4 adds to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tests.tracebuilder.calls import Activity, ApiCall, ahead, timed
from tests.tracebuilder.identity import Row, Text
from tests.tracebuilder.versions import Schema


@dataclass(frozen=True, slots=True)
class Kernel(Activity):
    """A kernel, or one of the kernels of a graph traced by nodes.

    Attributes:
        short_name: The name if None.
        graph_node: The node's id (see graph_node_id); its usual call launches a graph.
        cooperative: Whether it is launched as a cooperative kernel.
    """

    table: ClassVar[str] = "CUPTI_ACTIVITY_KIND_KERNEL"
    name: Text = "kernel"
    short_name: Text | None = field(default=None, kw_only=True)
    mangled_name: Text | None = field(default=None, kw_only=True)
    graph_node: int | None = field(default=None, kw_only=True)
    grid: tuple[int, int, int] = field(default=(1, 1, 1), kw_only=True)
    block: tuple[int, int, int] = field(default=(128, 1, 1), kw_only=True)
    cluster: tuple[int, int, int] = field(default=(0, 0, 0), kw_only=True)
    registers: int = field(default=32, kw_only=True)
    static_shared: int = field(default=0, kw_only=True)
    dynamic_shared: int = field(default=0, kw_only=True)
    cooperative: bool = field(default=False, kw_only=True)

    def usual_call(self) -> ApiCall:
        """Give cudaLaunchKernel, or cudaGraphLaunch for a node."""
        name = "cudaLaunchKernel_v7000" if self.graph_node is None else "cudaGraphLaunch_v10000"
        return ahead(self, name)

    def columns(self, schema: Schema, correlation: int) -> Row:
        """Give the row, in the columns of all versions."""
        grid_x, grid_y, grid_z = self.grid
        block_x, block_y, block_z = self.block
        cluster_x, cluster_y, cluster_z = self.cluster
        return {
            **timed(self, schema, correlation),
            "demangledName": self.name,
            "shortName": self.name if self.short_name is None else self.short_name,
            "mangledName": self.mangled_name,
            "launchType": 2 if self.cooperative else 1,
            "cacheConfig": 1,
            "registersPerThread": self.registers,
            "gridX": grid_x,
            "gridY": grid_y,
            "gridZ": grid_z,
            "blockX": block_x,
            "blockY": block_y,
            "blockZ": block_z,
            "staticSharedMemory": self.static_shared,
            "dynamicSharedMemory": self.dynamic_shared,
            "localMemoryPerThread": 0,
            "localMemoryTotal": 0,
            "gridId": correlation,
            "sharedMemoryExecuted": 32768,
            "graphNodeId": self.graph_node,
            "sharedMemoryLimitConfig": 0,
            "clusterX": cluster_x,
            "clusterY": cluster_y,
            "clusterZ": cluster_z,
            "clusterSchedulingPolicy": 0,
            "maxPotentialClusterSize": 0,
            "maxActiveClusters": 0,
            "tensorSizeMinusOneElements": "[]",
        }


@dataclass(frozen=True, slots=True)
class GraphLaunch(Activity):
    """A whole graph, traced in graph mode; before 3.11.1 its call is all that is written."""

    table: ClassVar[str] = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
    graph: int = 1
    graph_exec: int = 2

    def usual_call(self) -> ApiCall:
        """Give cudaGraphLaunch."""
        return ahead(self, "cudaGraphLaunch_v10000")

    def columns(self, schema: Schema, correlation: int) -> Row:
        """Give the row, in the columns of all versions."""
        return {
            **timed(self, schema, correlation),
            "graphId": self.graph,
            "graphExecId": self.graph_exec,
        }


@dataclass(frozen=True, slots=True)
class Decompression(Activity):
    """Work of the decompression engine (from 3.28.1 on)."""

    table: ClassVar[str] = "CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS"
    bytes: int = 1 << 20
    operations: int = field(default=1, kw_only=True)
    channel: int = field(default=0, kw_only=True)

    def usual_call(self) -> ApiCall:
        """Give cuMemBatchDecompressAsync."""
        return ahead(self, "cuMemBatchDecompressAsync")

    def columns(self, schema: Schema, correlation: int) -> Row:
        """Give the row, in the columns of all versions."""
        row = timed(self, schema, correlation)
        del row["greenContextId"]
        return {
            **row,
            "eventClass": 0,  # no file shows which it is
            "ChannelID": self.channel,
            "sourceBytes": self.bytes,
            "NumberOfOperations": self.operations,
        }


@dataclass(frozen=True, slots=True)
class HostNode(Activity):
    """A host function as its stream sees it (from 3.28.1 on); outside graphs without the ids."""

    table: ClassVar[str] = "CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE_AND_HOST_LAUNCH"
    graph_node: int | None = None
    graph: int | None = None

    def usual_call(self) -> ApiCall:
        """Give cudaLaunchHostFunc, or cudaGraphLaunch for a node."""
        name = "cudaLaunchHostFunc_v10000" if self.graph_node is None else "cudaGraphLaunch_v10000"
        return ahead(self, name)

    def columns(self, schema: Schema, correlation: int) -> Row:
        """Give the row, in the columns of all versions."""
        return {
            **timed(self, schema, correlation),
            "graphNodeId": self.graph_node,
            "graphId": self.graph,
        }
