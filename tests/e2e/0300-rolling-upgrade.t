#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A rolling upgrade under running jobs: daemons, plugin, worker and command of the release before (0.1.0, commit 60dffd6,
# built beside this one) and of this one, in both orders. First the batch host's daemon is replaced first, under old
# workers that the old plugin started; then last, under new workers that the new plugin started. Layers move in every
# mix, nothing is given back by a daemon that cannot prove it is empty, and losses stay those of one worker.
# shellcheck disable=SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

# shellcheck source=tests/e2e/release_before.sh
. "$DP_SRCDIR/tests/e2e/release_before.sh"

take_cores
cluster_up --nodes 4 --gpus 1 --cpus 2 --no-daemon --daemon-key 'report_ms = 250;' \
    --plugstack "optional $D/spank_dynpipe.so socket=$D/run/dynpiped-%n.sock" \
    --daemon-conf "$old_limits"
sed -i '/device_files/d' "$D/etc/dynpipe.conf"
export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/run/dynpiped-n1.sock

new_plugin() { ln -sfn "$plugin" "$D/plugin.new" && mv -T "$D/plugin.new" "$D/spank_dynpipe.so"; }

# ---- the batch host first: old workers, old plugin --------------------------------------------------
for n in 1 2 3 4; do start_old $n; done
worker=$old/worker/dynpipe-worker
old_job=$(submit old $release -- "$D/old.jsonl" $run)
wait_for 120 steps_done "$D/old.jsonl" 5
ok $? "a run of release 0.1.0 trains"
moves "$old_job" "0-1|2-3|4-5|6-7" "all old, asked by the new command"
runs "the new command asks an old daemon on another node" dynpipe status --node=n2 --json
decides 2
upgrade 1
moves "$old_job" "0-2|3|4-5|6-7" "the batch host is new, the others old"
runs "packing may go on" dynpipe resume -j "$old_job"
waits() { [[ $(status "$1" .state_text) =~ "packing waits: n2: its daemon speaks protocol version 1, this one 3" ]]; }
wait_for 60 waits "$old_job"
ok $? "and status says why it waits"
dynpipe check --nodes=n1,n2 >"$D/check.out" 2>&1
like "$(cat "$D/check.out")" "n2: .*protocol version 1" "dynpipe check says that n2's daemon is of another release"
upgrade 2
upgrade 3
moves "$old_job" "0-1|2-3|4-5|6-7" "n4 alone is old"
is "$(job_nodes "$old_job")" 4 "no node was given back while a daemon was old"
runs "the old command asks a new daemon" "$old_dynpipe" status -j "$old_job"
runs "also one on another node" "$old_dynpipe" status --node=n2 --json
upgrade 4
runs "all new: all four workers are heard" wait_for 60 connected "$old_job"
srun --dynpipe=observe -N1 -n1 -w n4 --overlap --jobid="$old_job" true 2>"$D/plugin.err"
runs "the old plugin tells a new daemon of a step" wait_for 30 file_has "$D/log/dynpiped.n4.log" "registered mode=observe"
runs "packing may go on" dynpipe resume -j "$old_job"
wait_for 240 nodes_fewer "$old_job" 4
ok $? "a node is given back when all daemons are new"
end_run "$old_job" old
wait_for 60 all_nodes_idle
same_as_alone $run -- old

# ---- the batch host last: new workers, new plugin ---------------------------------------------------
for n in 1 2 3 4; do cluster stop daemon:$n; done
rm -rf "$D"/dynpipe/n[1-4]
decides 1000
for n in 1 2 3 4; do start_old $n; done
new_plugin
worker=$new_worker
take_cores
new_job=$(submit new $release -- "$D/new.jsonl" $run)
wait_for 120 steps_done "$D/new.jsonl" 5
ok $? "a run of this release trains under old daemons"
moves "$new_job" "0-1|2-3|4-5|6-7" "new workers, all daemons old"
is "$(grep -c "no daemon on node" "$D/new.out")" 0 "the new plugin told the old daemons of the step"
upgrade 4
upgrade 3
moves "$new_job" "0-2|3|4-5|6-7" "n1 and n2 are old"
upgrade 2
decides 2
upgrade 1
moves "$new_job" "0-1|2-3|4-5|6-7" "all new"
runs "packing may go on" dynpipe resume -j "$new_job"
wait_for 240 nodes_fewer "$new_job" 4
ok $? "a node is given back"
end_run "$new_job" new
wait_for 60 all_nodes_idle
same_as_alone $run -- new
is "$(drained_nodes)" "" "no node is drained"
done_testing
