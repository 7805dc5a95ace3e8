"""Words that say nothing about anybody, though a user or a host may be called so.

Such a name is removed where it can only be a name (see `rewriter`), and left alone in other text:
`root` and `test` are accounts everywhere, and a host called `gpu` must not cost every text its
"gpu". The words of the classification rules are common too, so that no kernel and no range
changes its class in the copy.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_RULES_WORD = re.compile(r"[A-Za-z]{3,}")

_LIST = """
abstract access accounts action ada adam adamw admin administrator agent airflow all alloc alpha
amax amin amount ampere anaconda analysis android ansible apache api app application apps arch
args array asm assert asset async atomic attn auth auto avg azure azureuser backend backup
backward bar base bash bench benchmark bert beta bias bin binary bit bits blackwell bool boot
bound branch bucket buffer build builder bus byte cache call callback cancel capture case cast
catch cccl centos channel char chat check chrome class clean cli client clock clone cloud
cluster code coder collect column common compile completion completions complex compute conda
config console const constant container content context control copy core count cpu create ctrl
cub cuda cudart cudnn cufft cupti curand custom cutlass cycle daemon dashboard data database
dataset date dbus debian debug default delta demo dense depth desktop dev develop developer
device devops diff digital dim direct disk dispatch dist docker docs domain double down download
dst dtype dump dynamic edge elastic else embed embeddings empty enable encode encoder end engine
entry enum env environment epoch error etc eval event example exec execute exit expert explicit
export extern external fabric factory false fatal fedora feedstock fft field file fill filter
final find first flag flash flat float flow flush force format forward frame free from front
full func function future game gate gateway gather gcc geforce gelu gemm gemv gen general
generate generic git github gitlab global gnome gpt gpu gpus grace grad grafana graph grid group
grpc guest hadoop half handle hash hdfs head header health heap height helper hip home hook
hopper host hosts hpc html http https hub idle image images impl import index infer inference
info init inline inner input insert install int integer intel intern internal invoke item iter
java jenkins jetson jit job jobs join json julia jupyter keep kepler kernel kernels key keys
kill kube kubernetes label lamb lambda lang lapack last latency launch layer lazy left length
level lib library light limit linear link linux lion list live llama llm load local localhost
lock log logger logic login long loop lora loss low lower mach main make malloc manage manager
map mark mask master math matmul matrix max maximum maxwell mean media mem memcpy memory memset
merge meta metal method metric metrics micro min minimum mistral mixed mobile modal mode model
models module momentum monitor motion mount move mpi msg multi mutex name names namespace nano
native nccl nested net network neural new next nfs nginx nobody node nodes noise none norm
normal note notebook null num number numeric numpy nvcc nvidia nvme nvtx object off offset
oneshot online open opencl operator opt optim optimizer option oracle order org orin out outer
output over owner pack package padding page pages pair panel param params parent parse part
pascal pass patch path perf phase phi pinned pip pipe pipeline pixel place plan plane platform
plot plugin point pointer policy poll pool pop port post postgres pow power predict prefetch
prefill prime print private pro probe proc process prod product profile profiler program project
projects prompt proto provider proxy public pull push python pytorch quadro query queue quick
qwen rack random range rank rate ratio raw ray read ready real record redis reduce ref region
register relu remote remove render repeat replace reply request reset reshape resize resource
response responses rest result return reverse ring rnn roll root rope rotate round route router
row rubin run runner runtime rust safe sample save scalar scale scan scatter sched scheme score
script sdk search section seed segment select self send sequence serial server servers service
session set settings shape shard shared shell shift short show side sign signal simple single
sink size skip slice slim slot slow slurm small smart snap socket soft softmax solver sort
source space spark sparse spec speed spin split spot spread sql square src ssd ssh stack staff
staging standard start state static station statistics stats status std stdin stdout step store
stream stride string struct student students style sub submit success sudo suite sum super
support svc swap switch sync sys syscall system systems table tag target task team temp template
temporary tensor tensors term tesla test tester testing tests text the thread threads thrust
time timer titan tmp token tokens tool tools top torch total trace track train trainer training
transfer transform tree triton true tuple turbo turing type types ubuntu union unique unit unix
unknown unroll unsigned update upload upper usage use user users usr util utils vagrant val
valid value values var variable vec vector vendor verify version video view virtual vision vllm
vm void volatile volta volume vscode wait walk warn warning warp watch wave web weight weights
wheel while width window windows wire work worker workers workspace world wrap write yarn yield
zero zeros zone
"""
_WORDS = frozenset(_LIST.split())


@cache
def common_words() -> frozenset[str]:
    """Give the words, in lower case."""
    rules = resources.files("overlapaudit.classify") / "data"
    told = [file.read_text(encoding="utf-8") for file in rules.iterdir() if file.is_file()]
    return _WORDS.union(word.lower() for text in told for word in _RULES_WORD.findall(text))
