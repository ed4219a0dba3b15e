# SPDX-License-Identifier: BSD-3-Clause
# The setting of the DynPipe and DynMo papers as a model description of dynpipe simulate.
#
#   jq -n -L FOLDER --slurpfile densities densities.json 'include "model"; model(...)'
#
# Everything here is arithmetic on published figures; nothing of it was measured by us, but the densities
# (densities.json). Sources:
#   [model]    GPT, hidden 1024, 16 heads, 24 to 48 layers; microbatch 2, global batch 64, fp32, 8 devices: scripts and
#              names of result files of wahibium/DynMo @7faf19e. Its GPT script has sequences of 1024 tokens. 50304
#              tokens in the vocabulary: GPT-2's 50257, padded to a multiple of 128 as Megatron-LM does by default.
#   [sputnik]  README of mabdullahsoyturk/Torch-Sputnik, A100, fp32, M = N = K = 4096: cuBLAS 7.29 ms; Sputnik 13.0,
#              7.87, 6.07, 5.08, 4.02, 2.52 ms at density 0.5, 0.25, 0.2, 0.15, 0.1, 0.05.
#   [a100]     NVIDIA A100 40 GB data sheet: 1555 GB/s of memory bandwidth, 40 GB, NVLink 600 GB/s both ways together.
#   [act]      Korthikanti et al. 2022, arXiv:2205.05198, section 4.1: activations of a transformer layer are
#              s b h (34 + 5 a s / h) bytes in 16 bit; 66 + 9 a s / h in 32 bit, where dropout masks stay a byte.
# Assumptions, ours:
#   dense products run at the rate of [sputnik]'s cuBLAS figure, 18.9 TFLOP/s, whatever their shape;
#   forward, gradient of the input and of the weights of a sparse matrix each take the same share of the dense time,
#   which is that of [sputnik], linear between its densities, constant below 0.05; a matrix stays dense where sparse
#   kernels are slower (above density 0.234);
#   what is no matrix product reads and writes every kept activation once forward, and twice backward;
#   AdamW moves 28 bytes a parameter; a parameter takes 16 bytes of state, one of a sparse matrix 20 and its index.

def hidden: 1024; def heads: 16; def context: 1024; def vocabulary: 50304; def batch: 2;
def tokens: batch * context;
def flops_per_s: 2 * 4096 * 4096 * 4096 / 7.29e-3;
def memory_bytes_per_s: 1555e9;
def ms_of_flops: . / flops_per_s * 1e3;
def ms_of_bytes: . / memory_bytes_per_s * 1e3;
def message_bytes: tokens * hidden * 4;

# Density and time over that of the dense product, by falling density.
def sputnik: [[0.25, 7.87 / 7.29], [0.2, 6.07 / 7.29], [0.15, 5.08 / 7.29], [0.1, 4.02 / 7.29], [0.05, 2.52 / 7.29]];
def crossover: sputnik as [$p, $q] | $q[0] + ($p[0] - $q[0]) * (1 - $q[1]) / ($p[1] - $q[1]);

# One point of a block's cost table. share: time of a linear layer over the dense one.
def block_at($density; $share; $is_sparse):
    (12 * hidden * hidden) as $weights | (13 * hidden) as $rest
    | (tokens * (66 * hidden + 9 * heads * context)) as $activations
    | (24 * tokens * hidden * hidden | ms_of_flops * $share) as $linear
    | (4 * tokens * context * hidden | ms_of_flops) as $attention
    | (2 * $activations | ms_of_bytes) as $elementwise
    | ($weights * $density + $rest) as $left
    | {density: $density,
       forward_ms: ($linear + $attention + $elementwise),
       backward_input_ms: ($linear + 2 * $attention + 2 * $elementwise),
       backward_weight_ms: $linear,
       optimizer_ms: ((if $is_sparse then $left else $weights + $rest end) * 28 | ms_of_bytes),
       parameters: ($weights + $rest),
       state_bytes: ((if $is_sparse then $weights * $density * 20 else $weights * 16 end) + $rest * 16 | floor),
       activation_bytes: $activations,
       gradient_bytes: ((if $is_sparse then $left else $weights + $rest end) * 4 | floor),
       output_bytes: message_bytes};

def block:
    [block_at(1; 1; false), block_at(crossover; 1; false)]
    + [sputnik[] | select(.[0] < crossover) | block_at(.[0]; .[1]; true)]
    + [block_at(crossover - 1e-6; 1; true), block_at(0; sputnik[-1][1]; true)];

# Tables of tokens and positions: read, added and written; never pruned.
def embedding:
    ((vocabulary + context) * hidden) as $parameters
    | (message_bytes * 3 | ms_of_bytes) as $copy
    | {forward_ms: $copy, backward_input_ms: 0, backward_weight_ms: $copy, optimizer_ms: ($parameters * 28 | ms_of_bytes),
       parameters: $parameters, state_bytes: ($parameters * 16), activation_bytes: (tokens * 8),
       gradient_bytes: ($parameters * 4), output_bytes: message_bytes};

# Last norm, and the product with the vocabulary; never pruned, with a matrix of its own.
def head:
    (vocabulary * hidden) as $parameters
    | (2 * tokens * vocabulary * hidden | ms_of_flops) as $product
    | (tokens * vocabulary * 4) as $logits
    | {forward_ms: ($product + ($logits * 2 | ms_of_bytes)), backward_input_ms: ($product + ($logits * 2 | ms_of_bytes)),
       backward_weight_ms: $product, optimizer_ms: ($parameters * 28 | ms_of_bytes),
       parameters: $parameters, state_bytes: ($parameters * 16), activation_bytes: ($logits + message_bytes),
       gradient_bytes: ($parameters * 4), output_bytes: 0};

# Weights as densities that sum up to $sum in the same proportions, but that none is above 1: what those cannot hold the
# others get.
def fill($sum):
    (sort | reverse) as $sorted
    | first(range(length) as $full | ($sorted[$full:] | add) as $rest
            | if $rest > 0 then ($sum - $full) / $rest else 1 end | select(. * $sorted[$full] <= 1)) as $scale
    | map([. * $scale, 1] | min);

# Densities of n blocks that make up the level's. spread null: those of densities.json at the same relative depth. Else
# the last block's is so many times the first one's, and those between rise or fall evenly in their logarithm.
def densities_of($level; $n; $spread):
    ($level.density | length) as $m
    | if $spread then [range($n) | pow($spread; . / ($n - 1))]
      else [range($n) | . * ($m - 1) / ($n - 1) | floor as $i | (. - $i) as $part
          | $level.density[$i] * (1 - $part) + ($level.density[[$i + 1, $m - 1] | min]) * $part] end
    | fill((1 - $level.sparsity) * $n);

# As uniform in Megatron-LM: equal numbers of blocks, the embedding before the first, the head behind the last.
def equal_blocks($blocks; $devices):
    ($blocks / $devices) as $each
    | [range($devices) | $each + (if . == 0 then 1 else 0 end) + (if . == $devices - 1 then 1 else 0 end)];

# o: {blocks, replicas, devices_per_node, inside, between (GB/s), overhead_ms, policy (null: never moved), layout (of the
# start, null: policy's), iterations, levels (of densities.json, each with its iteration, and devices to pack onto or null), no_release,
# spread (of densities_of)}
def model($o):
    {name: "GPT, \($o.blocks) blocks, hidden \(hidden), \(8 * $o.replicas) devices",
     source: "FLOPs and bytes at published rates of an A100 in fp32, policies/sim/paper/model.jq; densities: \($o.densities)",
     devices: 8, microbatches: 32, replicas: $o.replicas, tokens_per_microbatch: tokens, gradient_buckets: 1,
     device: {memory_bytes: 40000000000},
     network: {devices_per_node: 8, inside: {latency_us: 5, gb_per_s: $o.inside}, between: {latency_us: 10, gb_per_s: $o.between}},
     kinds: {embedding: embedding, block: block, head: head},
     layers: ["embedding", {kind: "block", count: $o.blocks}, "head"],
     iterations: $o.iterations,
     events: [$o.levels[] | {iteration: .iteration, density: ([1] + densities_of(.; $o.blocks; $o.spread) + [1])}
              + (if $o.policy then {balance: $o.policy, overhead_ms: $o.overhead_ms} else {} end)
              + (if .devices then {devices: .devices} + (if $o.no_release then {} else {release: "devices"} end) else {} end)]}
    + (if $o.layout then {layout: $o.layout} else {balance: ($o.start // $o.policy)} end);
