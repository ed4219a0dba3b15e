# SPDX-License-Identifier: BSD-3-Clause
# The runs that make up the study, as a state that questions come out of and answers go into, so that a few calls of
# jq do for hundreds of runs (policies/sim/paper/paper). Comes behind model.jq in one program: jq 1.7 aborts when a
# module includes another one.
#
#   begin($blocks; $policies)  the state: every study, those of the static layout ready to be asked
#   questions                  model descriptions to simulate, one for each study that is not done
#   take($answers)             the state after them: what dynpipe simulate --json said to each, in order
#   results                    the studies that are done, as in results.json
#
# A study is one policy at one scale: `balanced`, its run on all devices, and `packed`, the run with the fewest devices
# at each level of pruning that is no slower than its own start. For that all numbers of devices are tried at every
# level in one run, from 8 down to `least`; one that does not fit into the memory ends the run, and is left out. What a
# policy answers may depend on the layout before: where the packed run is slower than it was when tried, it gets a
# device more.
def iterations: 10000;
# Of a decision and of a hand-over, beside the bytes that it moves (assumed, see doc/paper.md); a profiled iteration
# comes on top.
def overhead_ms: 100 + 100;

# When the papers prune: every 1000 iterations from 3000 to 7000; the first level is 0. densities: densities.json
def levels: [.levels | to_entries[] | .value + {iteration: (4000 + 1000 * .key)}];

def group: [.devices, .blocks, .inside_gb_per_s, .between_gb_per_s];

# How unevenly what is left spreads among the blocks, as densities_of has it, and the policies that are compared then.
def spreads: [1 / 16, 1, 16, 1e9];
def compared: ["uniform", "iteration"];

def begin($blocks; $policies):
    def study($kind; $replicas; $n; $inside; $between; $policy; $spread):
        {kind: $kind, devices: (8 * $replicas), blocks: $n, policy: $policy, inside_gb_per_s: $inside, between_gb_per_s: $between,
         spread: $spread,
         options: ({blocks: $n, replicas: $replicas, inside: $inside, between: $between, overhead_ms: 0, policy: $policy, spread: $spread}
            + if $policy == "static" then {policy: null, layout: equal_blocks($n; 8)}
              elif $policy == "keep" then {start: "time"} else {} end),
         stage: (if $policy == "static" then "balanced" else "wait" end), balanced: null, packed: null};
    {densities: .source, levels: levels, studies: [
        ((1, 90) as $replicas | $blocks[] as $n | ("static", $policies[]) | study("layers"; $replicas; $n; 300; 25; .; null)),
        ((1, 90) as $replicas | (1, 2, 5, 10, 25, 50, 100, 200, 400) as $gb | ("static", "time")
         | study("bandwidth"; $replicas; $blocks[0]; if $replicas == 90 then 300 else $gb end; $gb; .; null)),
        (select(compared - $policies == []) | spreads[] as $spread | $blocks[] as $n | compared[] as $p
         | study("spread"; 1; $n; 300; 25; $p; $spread))]};

def is_open: .stage == "balanced" or .stage == "try" or .stage == "pack";

def questions:
    .levels as $levels | .densities as $densities
    | .studies[] | select(is_open)
    | {levels: $levels, densities: $densities, iterations: iterations} + .options
      + if .stage == "try" then
            {no_release: true, iterations: 99, levels: ([range(8; .least - 1; -1) as $n | $levels[] | . + {devices: $n}]
                | to_entries | map(.value + {iteration: (.key + 2)}))}
        elif .stage == "pack" then {levels: .pack}
        else {} end
    | model(.);

# What came of a run; {"error": ...} where the policy has no layout that fits, without the name of the model's file.
def outcome:
    if .simulation then .simulation | {
        iteration_ms: [.phases[].iteration_ms], tokens_per_s: [.phases[].tokens_per_s], held: [.phases[].devices_held],
        used: [.phases[].devices_used], layouts: [.phases[].layout], pause_ms: [.phases[].pause_ms],
        moved_bytes: ([.phases[].moved_bytes] | add), memory_bytes: ([.phases[].mem_bytes] | max),
        run_tokens_per_s: .totals.tokens_per_s, run_tokens_per_device_s: .totals.tokens_per_device_s,
        device_s: .totals.device_s, pause_s: .totals.pause_s, time_s: .totals.time_s}
    else {error: (.errors[0] // "failed" | sub("^.*?/model[.]json: "; ""))} end;

# From now on with the devices of .pack, which never become more.
def to_pack: .stage = "pack" | .pack |= reduce range(1; 4) as $i (.; .[$i].devices = ([.[$i - 1, $i].devices] | min));

def balanced($out):
    .balanced = $out
    | if .policy == "static" or .policy == "keep" or .kind == "spread" or $out.error then .stage = "done" else .stage = "try" | .least = 1 end;

def tried($out; $levels):
    if $out.error and .least < 8 then .least += 1
    else (.balanced.iteration_ms[0] * 1.000001) as $most
        | (if $out.error then [] else [range(8; .least - 1; -1)] end
           | to_entries | map({n: .value, ms: $out.iteration_ms[1 + .key * 4:5 + .key * 4]})) as $all
        | .pack = [$levels | to_entries[] | .key as $i | .value + {devices: ([$all[] | select(.ms[$i] <= $most) | .n, 8] | min)}]
        | to_pack
    end;

def packed($out):
    (.balanced.iteration_ms[0] * 1.000001) as $most | .pack as $pack | .packed = $out
    | ([range(4) as $i | $out | select(.error or (.iteration_ms[$i + 1] > $most and $pack[$i].devices < 8)) | $i] | first) as $slow
    | if $slow == null then .stage = "done"
      else .pack |= map(if .devices == $pack[$slow].devices then .devices += 1 else . end)
        | if ([.pack[].devices] | max) <= 8 then to_pack else .stage = "done" end
      end;

# Where the static layout is known the others can be asked: they profile one iteration of it.
def wake:
    (.studies | map(select(.policy == "static" and .balanced.iteration_ms) | {(group | tostring): .balanced.iteration_ms[0]}) | add) as $ms
    | .studies |= map(if .stage == "wait" and $ms[group | tostring]
        then .stage = "balanced" | .options.overhead_ms = $ms[group | tostring] + overhead_ms else . end);

def take($answers):
    .levels as $levels
    | reduce ([.studies | to_entries[] | select(.value | is_open) | .key] | to_entries[]) as {key: $n, value: $at} (.;
        ($answers[$n] | outcome) as $out
        | .studies[$at] |= if .stage == "balanced" then balanced($out) elif .stage == "try" then tried($out; $levels) else packed($out) end)
    | wake;

def results: .studies | map({kind, devices, blocks, policy, inside_gb_per_s, between_gb_per_s, spread, balanced, packed});
