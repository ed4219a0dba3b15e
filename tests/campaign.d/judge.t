#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The campaign's judge and witness can fail: in evidence of a good run one thing after the other is made wrong (a release
# without proof, a loss that is off by a bit, a process that is left), and each is reported; the witness sees a process of the
# run on a node that Slurm gives away, and what is told before a journal has it. No Slurm here.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
: "${DP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${DP_BUILDDIR:=$PWD}"
parts=$DP_SRCDIR/tests/campaign.d
reader=$DP_BUILDDIR/tests/campaign.d/read_journal
witness=$DP_BUILDDIR/tests/campaign.d/watch
for p in "$reader" "$witness"; do [ -x "$p" ] || bail "$p is not built"; done
perl -MJSON::PP -e 1 2>/dev/null || skip_all "perl has no JSON::PP"
T=$(mktemp -d "${TMPDIR:-/tmp}/dpXXXXXX") || bail "no temporary directory"
left=
cleanup() { [ -z "$left" ] || end_processes $left; rm -rf "$T"; }
trap 'case $BASHPID in $$) cleanup ;; esac' EXIT

# make_evidence DIR [WITHOUT...]: job 7 trains 8 layers on n1, n2 and n3 for 30 steps, hands over twice, gives n3 back, and
# makes steps 25 to 30 again after a requeue. The records that are named do not come into the journals.
make_evidence() {
    local dir=$1
    shift
    rm -rf "$dir"
    mkdir -p "$dir/journals"
    perl - "$dir" "$@" <<'P' || bail "no evidence"
use strict;
my ($dir, @without) = @ARGV;
my %without = map { $_ => 1 } @without;
sub crc {
    my $c = 0xffffffff;
    for my $b (unpack 'C*', $_[0]) { $c ^= $b; $c = $c & 1 ? ($c >> 1) ^ 0x82f63b78 : $c >> 1 for 1 .. 8 }
    return $c ^ 0xffffffff;
}
sub journal {
    my ($name, @records) = @_;
    open my $f, '>:raw', "$dir/journals/$name" or die;
    print $f "DPJRNL1\n";
    my $seq = 0;
    for (@records) {
        my ($what, $type, $p) = @$_;
        next if $without{$what};
        my $head = pack 'Q>C', ++$seq, $type;
        print $f pack('NN', length $p, crc(pack('N', length $p) . $head . $p)), $head, $p;
    }
}
sub text { pack 'n/a', $_[0] }
sub layout { my ($epoch, $cuts, $gone) = @_; pack 'Q>NNn3C3', $epoch, 3, 8, @$cuts, @$gone }
sub intent { my ($id, $next) = @_; ['INTENT', 2, pack('Q>Q>', $id, 5) . $next . pack('NQ>', 2, 99) . text('move')] }
sub commit { my ($id, $epoch) = @_; ['COMMIT', 3, pack 'Q>4', $id, 6, $epoch, 9] }
sub done { ['DONE', 5, pack 'Q>5', $_[0], 7, 1, 1, 1] }
sub slot { my ($what, $type, $text) = @_; [$what, $type, pack('NQ>Q>', 2, 8, 9) . text($text)] }
my $is_sliced = $ENV{KIND} && $ENV{KIND} eq 'slices'; # jobs 7, 8 and 9 have one GPU each; 9 is given back, 8 was taken and comes again
my $first = layout(0, [3, 6, 8], [0, 0, 0]);
my $second = layout(1, [4, 8, 8], [0, 0, 0]);
my $third = layout(2, [4, 8, 8], [0, 0, 1]);
my $proof = $without{proof} ? 'it said goodbye' : 'node=n3 job=7 empty twice 200 ms apart: processes=0 device_lock=free';
my @nodes = ['NODES', 12, pack('N4', 3, 0, 0, 3) . text('n1') . text('n2') . text('n3')];
my @workers = ['WORKERS', 14, pack 'N(nN)3', 3, 0, 11, 1, 12, 2, 13];
sub start { my ($life) = @_; ['START', 1, pack('NNNQ>Q>NC', 1, 7, $life, 4, 0, 0, 1) . $first] }
@nodes = (['SLICES', 22, pack('N4n3', 3, 7, 8, 9, 0, 0, 0)], @nodes) if $is_sliced;
$proof = $without{proof} ? 'it said goodbye' : 'Slurm says that job 9 is over' if $is_sliced;
# With LOST the run regroups instead of beginning again: n2 is lost, too.
push my @lost, $ENV{LOST} ? ['REGROUP', 23, pack('Q>Q>', 3, 7) . layout(3, [8, 8, 8], [0, 1, 1]) . pack('NQ>', 2, 99) . text('lost')] : ();
my @taken = map { my ($what, $type, $text) = @$_; [$what, $type, pack('NQ>Q>', 1, 8, 9) . text($text)] }
    ['DRAIN of 8', 6, ''], ['RELEASED of 8', 9, 'Slurm took it out of the job'];
push @taken, ['SEAT', 24, pack('N4Q>', 1, 8, 1, 77, 9) . text('n2')];
journal('n1.0000.job-7.0.journal', @nodes, @workers, start(0), intent(1, $second),
    $without{'no-abort'} ? ['ABORT', 4, pack('Q>Q>', 1, 6) . text('no')] : (), commit(1, 1), done(1), intent(2, $third), commit(2, 2), done(2),
    slot('DRAIN', 6, ''), slot('GONE', 7, $proof), ['RELINTENT', 8, pack 'Q>Nn', 10, 1, 2], slot('RELEASED', 9, 'gone'), $is_sliced ? @taken : (), @lost);
journal('n1.0003.job-7.1.journal', @nodes, @workers, start(1));
journal('n3.0002.node.journal', ['FENCE', 2, pack 'N3', 7, 0, 1]);
open my $log, '>', "$dir/train.jsonl" or die;
open my $ref, '>', "$dir/reference" or die;
my $line = sub {
    my ($step, $epoch, $layout) = @_;
    printf $log "{\"step\":%d,\"loss\":%.17g,\"grad_norm\":1.5,\"layout\":\"%s\",\"epoch\":%d,\"workers\":3}\n", $step, 5 + 1 / $step, $layout, $epoch;
};
printf $ref "%d %.17g\n", $_, 5 + 1 / $_ for 1 .. 40;
$line->($_, 0, '0-2|3-5|6-7') for 1 .. 10;
$line->($_, 1, '0-3|4-7|-') for 11 .. 20;
$line->($_, 2, '0-3|4-7|x') for 21 .. 30;
my ($event, $why) = $ENV{LOST} ? ('regrouped', 'worker 1 on n2 was lost (process 5); 1 workers go on, layout 0-7|x|x, from step 24 of checkpoint ') : ('resumed', '');
print $log "{\"event\":\"$event\",\"step\":24,\"value\":null,\"text\":\"${why}saved/step-24\"}\n{\"step\":25,\"lo\n";
$line->($_, $ENV{LOST} ? (3, '0-7|x|x') : (0, '0-2|3-5|6-7')) for 25 .. 34;
my %file = (
    plan => "seed=1\nrun=1\nkind=node_shrink\nnodes=3\nfault=worker-kill:n2\@left+1/0\n",
    faults => "1.000 worker-kill:n2 begins\n1.100 worker-kill:n2 ends \n1.200 all faults are over\n",
    events => "1.000 record n1 job-7.0 START\n1.100 left n3 proved\n1.200 given n3 8 released\n1.900 end turns=9 longest_ms=3 looks=2 violations=0\n",
    'end.job' => "JobId=7 JobName=train JobState=COMPLETED Restarts=1 Reason=None\n",
    'end.want' => "COMPLETED\n", 'end.nodes' => "n1 idle none\nn2 idle none\nn3 idle none\n", 'end.queue' => '', 'end.left' => '',
    'end.sacct' => "7|NODE_FAIL|3|9|a|b\n7|COMPLETED|3|4|c|d\n");
if ($is_sliced) {
    $file{plan} =~ s/node_shrink/slices\nslices=3\nmade=array/;
    $file{faults} = "1.000 slice-requeue:s2 begins\n1.010 hits 8 on n2\n1.100 slice-requeue:s2 ends \n1.200 all faults are over\n";
    $file{'end.jobs'} = join '', map { "JobId=$_ JobName=train JobState=COMPLETED Restarts=" . ($_ == 8 ? 1 : 0) . " NodeList=n1\n" } 7 .. 9;
    $file{'end.sacct'} = "7|COMPLETED|1|9|a|b\n8|REQUEUED|1|4|c|d\n8|COMPLETED|1|4|c|d\n9|COMPLETED|1|4|c|d\n";
    $file{events} =~ s/n3 proved/n3 9.0 empty/;
    $file{events} =~ s/given n3/given n3.0/;
    delete $file{'end.job'};
    unlink "$dir/journals/n1.0003.job-7.1.journal";
}
for (keys %file) { open my $f, '>', "$dir/$_" or die; print $f $file{$_} }
P
}
judged() { "$parts/judge" "$T/e" "$reader" >"$T/said" 2>&1; }

make_evidence "$T/e"
judged
is "$?" 0 "a good run is good"
is "$(cat "$T/said")" "faults=1 missed=0 by_slurm=0 releases=1 given=1 growths=0 handovers=2 copied=0 aborted=0 kept=0 promoted=0 back=0 steps=34 redone=6 starts=2 journals=3" "and what it did is counted"

# found REGEX NAME: what was changed in $T/e is a violation, and said so. found_short: it falls short.
found() { judged_so 1 violation "$1" "$2"; }
found_short() { judged_so 3 short "$1" "$2"; }
judged_so() { # STATUS WORD REGEX NAME
    judged
    is "$?" "$1" "$4: $2"
    like "$(cat "$T/said")" "$2: .*($3)" "$4: it is named"
    make_evidence "$T/e"
}
without() { # RECORD REGEX NAME
    make_evidence "$T/e" "$1"
    found "$2" "$3"
}
without GONE "n1.0000.job-7.0.journal: RELINTENT of n3 without GONE: it is 'drain'" "a release without proof"
without proof "GONE of n3 without a proof: 'it said goodbye'" "a goodbye is no proof"
without FENCE "n3 was to be released in start 0, and its daemon has no FENCE" "a release without a fence"
without RELINTENT "RELEASED of n3 without RELINTENT" "a release that was not intended"
without INTENT "COMMIT 1 without its INTENT" "a decision about nothing"
without INTENT "DynPipe's own reader: refused n1.0000.job-7.0.journal" "DynPipe's own reader is asked, too"
without COMMIT "which no journal decided" "an epoch that was told before it was journalled"
without no-abort "COMMIT 1 without its INTENT|COMMIT 1 after ABORT" "a decision after the opposite one"

change() { sed -i "$2" "$T/e/$1" || bail "sed"; } # FILE EXPRESSION
# The last bit of a loss: 5 + 1/7 is 5.1428571428571432 and the number below it 5.1428571428571423.
change train.jsonl 's/5\.1428571428571432/5.1428571428571423/'
found "step 7 has loss 4014924924924924 .*undisturbed it is 4014924924924925" "a loss that is off by its last bit"
change train.jsonl '$s/"loss":5/"loss":6/'
found "step 34 has loss" "a changed loss in the second start"
change train.jsonl '34,$s/"loss":5/"loss":7/'
found "step 26 has loss" "a step that is made again has another loss"
change train.jsonl 12d
found "step 13 comes after step 11" "a step that is missing"
change train.jsonl 's/"layout":"0-3|4-7|-"/"layout":"0-4|5-7|-"/'
found "step 11 was made in epoch 1 with layout 0-4.5-7.-, which no journal decided" "a layout that nobody decided"
printf '\x01' | dd of="$T/e/journals/n1.0000.job-7.0.journal" bs=1 seek=60 conv=notrunc 2>/dev/null
found "n1.0000.job-7.0.journal: record [12] is damaged, and another one follows" "a bit in a journal"
change end.nodes 's/n2 idle none/n2 drained Prolog_error/'
found_short "a node is not idle in the end: n2 drained" "a node that is drained"
change end.job s/COMPLETED/FAILED/
found_short "the job is FAILED, and should be COMPLETED" "a job that failed"
change end.sacct '$s/COMPLETED/RUNNING/'
found_short "accounting ends the job as RUNNING" "an accounting record that is wrong"
echo "8 RUNNING n3" >"$T/e/end.queue"
found_short "a job is left: 8 RUNNING n3" "a job that is left"
echo "dynpipe-worker gpt-prune.conf" >"$T/e/end.left"
found_short "a process is left: dynpipe-worker" "a process left alive"
echo "the run does not come to itself" >"$T/e/trouble"
found_short "the run does not come to itself" "a run that does not heal"
echo "a daemon has died by itself: n2" >"$T/e/wrong"
found "a daemon has died by itself: n2" "a daemon that died"
change end.job s/COMPLETED/FAILED/
change train.jsonl '$s/"loss":5/"loss":6/'
found "step 34 has loss" "a violation of a run that falls short, too,"
change events 's/^1.200 .*/1.200 violation 1 processes of the run on n3, which the run does not have: pid 5/'
found "witness: 1 processes of the run on n3" "what the witness has seen"
change events 's/left n3 proved/left n3 by-hand/'
found "n3 left the run, and neither the run nor a fault asked for that" "a node that Slurm took unasked"
change events 's/left n3 proved/left n3 by-hand/'
change faults '1s/^/0.500 node-lost:n3 begins\n/'
judged
is "$?" 0 "but one that was lost leaves it so"
make_evidence "$T/e"
change events '$d'
found "the witness did not watch to the end" "a witness that died"
rm "$T/e/events"
judged
is "$?" 2 "evidence without events is no evidence"

# ---- losses, and what the run says of them -----------------------------------------------------------------------------
# kept_at STEP [LINE]: the run says so before it makes its 21st step.
kept_at() {
    make_evidence "$T/e"
    change train.jsonl "21i {\"event\":\"regrouped\",\"step\":$1,\"value\":0.5,\"text\":\"worker 2 was lost, from step $1 with the layers that they have, 2 of them from copies: no step is lost\"}"
}
kept_at 20
judged
is "$?" 0 "a run that goes on from copies is good"
like "$(cat "$T/said")" " kept=0 promoted=1 back=0 " "and counted"
kept_at 20
change train.jsonl '21s/, 2 of them from copies//'
judged
like "$(cat "$T/said")" " kept=1 promoted=0 back=0 " "so is one whose lost worker had no layers"
kept_at 19
found "says at step 19 that no step is lost, and the last step of its log is 20" "a step that was lost without a word"
make_evidence "$T/e"
change train.jsonl 's/"event":"resumed","step":24,\(.*\)"saved/"event":"regrouped","step":30,\1"no step is lost, saved/'
found "step 25 is there again, and the run said that no step is lost" "a step that is made again behind such a word"
make_evidence "$T/e"
change events '1s/$/\n1.050 regrouped kept 20 reads=3/'
found "says at step 20 that no step is lost, and 3 layers of a checkpoint were read" "a checkpoint that is read behind such a word"

export LOST=1
looked() { # TEXT-OF-THE-LAST LINE...: "STEP EPOCH LAYERS WHOLE"
    make_evidence "$T/e"
    echo copies=1 >>"$T/e/plan"
    printf '1.%d %s\n' 0 "26 2 8 8 " 2 "27 2 8 8 " 4 "28 2 8 8 " 6 "29 2 8 8 $1" >"$T/e/copies"
}
honest() { # WHY NAME
    judged
    is "$?" 0 "$2: is good"
    like "$(cat "$T/said")" "^honest: after step 30 the run goes back to step 24: $1" "$2: and said so"
    like "$(cat "$T/said")" " kept=0 promoted=0 back=1 " "$2: and counted"
}
looked ""
found "after step 30 the run goes back to step 24, and every layer had a whole copy: worker 1 on n2 was lost" "a checkpoint that nobody needs"
looked ""
change copies '3s/8 8 $/8 5 /'
honest "copies were not whole .5 of 8." "a checkpoint when a copy was not whole"
looked "layers and copies are on n1 alone: a worker may be lost, not the node"
honest "layers and copies are on n1 alone" "one when there is one node"
looked ""
change train.jsonl '27s/^/{"event":"pruned","step":27,"value":0.5,"text":"x"}\n/'
honest "layers had changed .step 27." "one after a pruning"
looked ""
change copies '$d'
honest "nobody could look" "one when nobody has looked"
looked ""
change copies 's/ 2 8 8/ 1 8 8/'
honest "nobody could look" "one when nobody has looked since the last layout"
looked ""
change train.jsonl '21,30s/"layout":"0-3|4-7|x","epoch":2/"layout":"0-3|4-7|-","epoch":1/'
honest "another loss, or a hand-over, came between" "one after two losses"
looked ""
change plan '/copies=/d'
judged
unlike "$(cat "$T/said")" "honest" "a run without copies has to say nothing"
unset LOST
make_evidence "$T/e"

# ---- the witness -------------------------------------------------------------------------------------------------------
# begin_witness [WITHOUT...]: a cluster's folder with the journals of the good run, and the witness beside it.
begin_witness() {
    make_evidence "$T/e" "$@"
    rm -rf "$T/c" "$T/w"
    mkdir -p "$T/c/log" "$T/w" "$T"/c/dynpipe/n{1,2,3}
    cp "$T/e/journals/n1.0000.job-7.0.journal" "$T/c/dynpipe/n1/job-7.0.journal"
    cp "$T/e/journals/n3.0002.node.journal" "$T/c/dynpipe/n3/node.journal"
    "$witness" "$T/c" "$T/w" 7 ${KIND:+"$KIND"} &
    left=$!
    wait_for 60 test -s "$T/w/events"
}
end_witness() { kill -TERM $left; wait $left; rc=$?; left=; }
slurm_says() { echo "[2026-01-01T00:00:00.000] $*" >>"$T/c/log/slurmctld.log"; }
saw() { grep -qE "$1" "$T/w/events"; }

begin_witness
slurm_says "Killing JobId=7 StepId=0 on failed node n3"
wait_for 60 saw ' left n3 proved$'
ok $? "a proved release is seen"
slurm_says "sched/backfill: _start_job: Started JobId=8 in main on n[2-3]"
wait_for 60 saw ' given n3 8 released$'
ok $? "and the job that has the node then"
end_witness
is "$rc" 0 "an empty node is no violation"
is "$(cmp "$T/w/journals"/*job-7.0.journal "$T/c/dynpipe/n1/job-7.0.journal" 2>&1)" "" "the journal is kept"

begin_witness
env -i SLURM_JOB_ID=7 SLURMD_NODENAME=n3 SLURM_CONF="$T/c/etc/slurm.conf" sleep 100 &
worker=$!
env -i SLURM_JOB_ID=7 SLURMD_NODENAME=n2 SLURM_CONF="$T/c/etc/slurm.conf" sleep 100 &
other=$!
left="$left $worker $other"
wait_for 60 grep -qz SLURM_JOB_ID=7 /proc/$worker/environ
slurm_says "Killing JobId=7 StepId=0 on failed node n3"
wait_for 60 saw "violation 1 processes of the run on n3, which Slurm took out of the run: pid $worker "
ok $? "a process of the run on a node that Slurm gives away"
end_processes $worker $other
left=${left%% *}
end_witness
is "$rc" 1 "is a violation"

begin_witness
slurm_says "Killing JobId=7 StepId=0 on failed node n3"
wait_for 60 saw ' left n3 '
env -i SLURM_JOB_ID=7 SLURMD_NODENAME=n3 SLURM_CONF="$T/c/etc/slurm.conf" sleep 100 &
worker=$!
left="$left $worker"
wait_for 60 saw "violation 1 processes of the run on n3, which the run does not have: pid $worker "
ok $? "one that comes later, too"
end_processes $worker
left=${left%% *}
end_witness

begin_witness RELINTENT
env -i SLURM_JOB_ID=7 SLURMD_NODENAME=n3 SLURM_CONF="$T/c/etc/slurm.conf" sleep 100 &
worker=$!
left="$left $worker"
wait_for 60 grep -qz SLURM_JOB_ID=7 /proc/$worker/environ
slurm_says "Killing JobId=7 StepId=0 on failed node n3"
wait_for 60 saw ' left n3 by-hand$'
ok $? "a node that the run did not mean to give back"
end_processes $worker
left=${left%% *}
end_witness
is "$rc" 0 "is its owner's affair, who has Slurm kill what runs there"

begin_witness GONE
slurm_says "Killing JobId=7 StepId=0 on failed node n3"
wait_for 60 saw 'violation n3 left the run with RELINTENT and without DRAIN, GONE and FENCE'
ok $? "a node that leaves without proof"
end_witness

begin_witness
echo '{"step":11,"loss":5.0,"layout":"0-3","epoch":2,"workers":3}' >>"$T/c/train.jsonl"
echo "2026-01-01T00:00:00.000 dynpiped info: job=7 hand-over 2 committed at step 9: move" >>"$T/c/log/dynpiped.n1.log"
wait_for 60 saw ' epoch 2$'
# Of what is in a checkpoint layers count, and who writes one does not read it.
mkdir -p "$T/c/saved/step-00000020"
wait_for 60 saw ' saving step-00000020$'
echo layer | tee "$T/c/saved/step-00000020/layer-0000.bin" >"$T/c/saved/step-00000020/manifest"
cat "$T/c"/saved/step-00000020/* >/dev/null
echo '{"event":"regrouped","step":20,"value":0.5,"text":"from step 20 with the layers that they have: no step is lost"}' >>"$T/c/train.jsonl"
wait_for 60 saw ' regrouped kept 20 reads=1$'
ok $? "a checkpoint that is read"
echo '{"event":"regrouped","step":21,"value":0.5,"text":"from step 21 of checkpoint saved/step-00000020"}' >>"$T/c/train.jsonl"
echo '{"event":"resumed","step":20,"value":null,"text":"saved/step-00000020"}' >>"$T/c/train.jsonl"
wait_for 60 saw ' resumed 20 reads=0$'
ok $? "and one that is not"
runs "a step that is lost" saw ' regrouped back 21 reads=0$'
echo '{"step":12,"loss":5.0,"layout":"0-3","epoch":5,"workers":3}' >>"$T/c/train.jsonl"
wait_for 60 saw 'violation the run is in epoch 5, and no journal has its COMMIT'
ok $? "an epoch that is told and in no journal"
echo "2026-01-01T00:00:00.000 dynpiped info: job=7 hand-over 9 committed at step 9: move" >>"$T/c/log/dynpiped.n1.log"
wait_for 60 saw 'violation hand-over 9 is told to be committed'
ok $? "a hand-over that is told and in no journal"
echo "2026-01-01T00:00:00.000 dynpiped info: job=7 n2 is gone: empty" >>"$T/c/log/dynpiped.n1.log"
wait_for 60 saw 'violation n2 is told to be gone without GONE in a journal'
ok $? "a proof that is told and in no journal"
end_witness
is "$(grep -c ' violation ' "$T/w/events")" 3 "and nothing else"

# ---- a run of slices ---------------------------------------------------------------------------------------------------

export KIND=slices
make_evidence "$T/e"
judged
is "$?" 0 "slices: a good run is good"
like "$(cat "$T/said")" "^faults=1 missed=0 by_slurm=0 releases=1 given=1 growths=0 handovers=2 .* starts=2 journals=2$" "slices: and what it did is counted"
without GONE "RELINTENT of n3 without GONE" "slices: one that is released without a proof"
without proof "GONE of n3 without a proof: 'it said goodbye'" "slices: Slurm's word is the proof"
without "RELEASED of 8" "a SEAT for job 8 in slot 1, which is 'drain'" "slices: a seat that is not free"
change end.jobs 's/JobId=9 \(.*\)COMPLETED/JobId=9 \1FAILED/'
found_short "slice 9 ends as FAILED, and nothing was done to it that explains it" "slices: an end that nothing explains"
change end.sacct '/^8|COMPLETED/d'
found_short "accounting ends slice 8 as REQUEUED, Slurm as COMPLETED" "slices: accounting of another opinion"
change end.jobs 's/JobId=8 \(.*\)COMPLETED\(.*\)/JobId=8 \1CANCELLED\2 RunTime=00:00:00 /'
change end.sacct '/^8|COMPLETED/d'
change faults '$s/$/\n1.300 run-scancel/'
judged
is "$?" 0 "slices: but not of a life that was cancelled before it began"
make_evidence "$T/e"
change faults '$s/$/\n1.300 over early/'
found_short "the run was over before it was asked to end" "slices: a run that ends by itself"

# ---- what Slurm does by itself (by_slurm.pl), as its logs had it -----------------------------------------------------------
# Each finding is Slurm's with these lines, and what it was without any one of them.

by_slurm() { judged_so 4 "by Slurm \($1\)" "$2" "$3"; } # WHAT REGEX NAME
logged() { mkdir -p "$T/e/log" && cat >"$T/e/log/$1"; } # FILE
without_line() { sed -i "/$2/d" "$T/e/log/$1"; } # FILE REGEX

# Run 1 of seed 6, played on a busy machine: n2 comes back, and job 1 begins there for the second time.
stale_kill() {
    make_evidence "$T/e"
    logged slurmctld.log <<'X'
[2026-11-26T18:13:59.500] slurmctld version 22.05.8 started on cluster dynpipetest
[2026-11-26T18:13:59.931] _slurm_rpc_submit_batch_job: JobId=1 InitPrio=4294901759 usec=1306
[2026-11-26T18:14:00.450] sched/backfill: _start_job: Started JobId=1_3(1) in main on n2
[2026-11-26T18:14:29.029] requeue job JobId=1_3(1) due to failure of node n2
[2026-11-26T18:14:29.029] Requeuing JobId=1_3(1)
[2026-11-26T18:14:29.374] sched: _update_job: setting begin to 2026-11-26T18:14:31 for JobId=1_3(1)
[2026-11-26T18:14:31.834] sched: Allocate JobId=1_3(1) NodeList=n2 #CPUs=1 Partition=main
[2026-11-26T18:14:32.162] _job_complete: JobId=1_3(1) WTERMSIG 15
[2026-11-26T18:14:32.162] _job_complete: JobId=1_3(1) done
[2026-11-26T18:14:32.182] sched: Allocate JobId=27 NodeList=n2 #CPUs=1 Partition=other
X
    logged slurmd.n2.log <<'X'
[2026-11-26T18:14:31.838] Launching batch job 1 for UID 0
[2026-11-26T18:14:32.042] debug:  _rpc_terminate_job: uid = 0 JobId=1
[2026-11-26T18:14:32.052] [1.batch] error: *** JOB 1 ON n2 CANCELLED AT 2026-11-26T18:14:32 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
[2026-11-26T18:14:32.089] [1.batch] Sent signal 15 to StepId=1.batch
X
    change faults '1s/^/0.900 node-power:n2 begins\n/'
    change events '/ given /d'
    change events '$s/^/1.193 given n2.0 27 released\n1.195 violation 2 processes of the run on n2.0, which Slurm gave to another job: pid 24975 \/usr\/bin\/srun, of 1.1\n/'
}
alive="witness: 2 processes of the run on n2.0"
stale_kill
by_slurm "stale kill" "2 processes of the run on n2.0" "a message of the life before"
for line in "slurmctld.log:requeue job" slurmctld.log:Requeuing "slurmctld.log:Allocate JobId=1_3" "slurmctld.log:WTERMSIG" "slurmctld.log:JobId=27" \
    slurmd.n2.log:Launching slurmd.n2.log:_rpc_terminate "slurmd.n2.log:NODE FAILURE"; do
    stale_kill
    without_line "${line%%:*}" "${line#*:}"
    found "$alive" "a stale kill without '${line#*:}'"
done
stale_kill
change faults '1s/n2/n3/'
found "$alive" "a stale kill on a node that was not lost"
stale_kill
change events 's/, of 1.1$/, of 1.0/'
found "$alive" "processes of the life before"
stale_kill
change events 's/, of 1.1$/, of 1.1 8.0/'
found "$alive" "processes of another slice beside"
stale_kill
change events '1s/^/0.500 record n1 job-7.0 DRAIN 1.1\n/'
found "$alive" "a slice that the run was giving back"
stale_kill
change log/slurmctld.log '/WTERMSIG 15/i [2026-11-26T18:14:32.000] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=1 uid 0'
found "$alive" "a slice that somebody has cancelled"
stale_kill
change events 's/given n2.0 27/given n2.0 26/'
found "$alive" "a GPU that went to a job of which Slurm says nothing"
stale_kill
change events 's/, which Slurm gave .*: pid/, which the run says Slurm has back: pid/'
change events 's/processes of the run on n2.0/processes of slice 1 on n2/'
by_slurm "stale kill" "2 processes of slice 1 on n2" "Slurm's word that a slice is over"
export KIND=
stale_kill
found "$alive" "what is asked of slices alone"
export KIND=slices

# Run 17 of seed 12: slurmctld is killed 2 s after job 24 had ended, and has forgotten job 32.
killed() {
    make_evidence "$T/e"
    change faults '$s/^/1.050 slurmctld-kill:- begins\n1.060 slurmctld-kill:- ends \n/'
    logged slurmctld.log <<'X'
[2026-11-26T17:40:04.194] slurmctld version 22.05.8 started on cluster dynpipetest
[2026-11-26T17:40:18.719] _slurm_rpc_submit_batch_job: JobId=24 InitPrio=4294901736 usec=491
[2026-11-26T17:40:19.041] sched/backfill: _start_job: Started JobId=24 in other on n1
[2026-11-26T17:40:21.310] _job_complete: JobId=24 WEXITSTATUS 0
[2026-11-26T17:40:21.869] _slurm_rpc_submit_batch_job: JobId=32 InitPrio=4294901728 usec=508
[2026-11-26T17:40:22.046] sched/backfill: _start_job: Started JobId=32 in other on n3
[2026-11-26T17:40:27.184] slurmctld version 22.05.8 started on cluster dynpipetest
[2026-11-26T17:40:27.822] Recovered JobId=24 StepId=batch
[2026-11-26T17:40:27.822] Recovered JobId=24 Assoc=2
[2026-11-26T17:40:28.227] job_complete: invalid JobId=32
[2026-11-26T17:40:33.361] _slurm_rpc_submit_batch_job: JobId=32 InitPrio=4294901728 usec=465
[2026-11-26T17:40:35.227] sched: Allocate JobId=32 NodeList=n3 #CPUs=1 Partition=other
[2026-11-26T17:40:35.229] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=32 uid 0
[2026-11-26T17:40:35.232] error: Duplicate jobid on nodes n3, set to state DRAIN
X
    logged slurmd.n1.log <<'X'
[2026-11-26T17:40:19.046] Launching batch job 24 for UID 0
[2026-11-26T17:40:21.305] [24.batch] job 24 completed with slurm_rc = 0, job_rc = 0
X
    logged slurmd.n3.log <<'X'
[2026-11-26T17:40:22.052] Launching batch job 32 for UID 0
[2026-11-26T17:40:35.228] error: Job 32 already running, do not launch second copy
X
}
left_running() {
    killed
    echo "24 RUNNING n1" >"$T/e/end.queue"
    change end.nodes 's/n1 idle/n1 mixed/'
}
left_running
by_slurm "ended before" "a job is left: 24 RUNNING n1" "a job that runs nowhere"
left_running
by_slurm "ended before" "a node is not idle in the end: n1 mixed" "and its node"
for line in slurmctld.log:_job_complete slurmctld.log:StepId=batch slurmd.n1.log:Launching slurmd.n1.log:completed; do
    left_running
    without_line "${line%%:*}" "${line#*:}"
    found_short "a job is left: 24" "one without '${line#*:}'"
done
left_running
change log/slurmctld.log 's/Started JobId=24 in other/Started JobId=24 in main/'
found_short "a job is left: 24" "a job of the run"
left_running
change faults '/slurmctld-kill/d'
found_short "a job is left: 24" "a slurmctld that nobody has killed"
left_running
echo "8 RUNNING n1" >>"$T/e/end.queue"
found_short "a node is not idle in the end: n1 mixed" "a node that has another job, too"

# Run 32 of seed 302: the run has given slice 24 back, which had ended; its GPU is free for whoever asks slurmd, and not for slurmctld.
waiting() {
    killed
    change log/slurmctld.log 's/Started JobId=24 in other/Started JobId=9_2(24) in main/; s/_job_complete: JobId=24/_job_complete: JobId=9_2(24)/'
    echo "after all faults the run does not come to itself: jobs 7 9_0 RUNNING n2;8 9_1 COMPLETED n2;24 9_2 RUNNING n1; home 7," \
        "coordinator n2: state training, slots active released releasing, at 2 slices train, step 60 after 30" >"$T/e/trouble"
}
waiting
by_slurm "ended before" "the run does not come to itself" "a slice that the run waits for, and that runs nowhere"
for line in slurmctld.log:_job_complete slurmctld.log:StepId=batch slurmd.n1.log:Launching slurmd.n1.log:completed; do
    waiting
    without_line "${line%%:*}" "${line#*:}"
    found_short "the run does not come to itself" "a slice that is waited for without '${line#*:}'"
done
for change in 's/Started JobId=9_2(24) in main/Started JobId=9_2(24) in other/' 's/in main on n1/in main on n3/'; do
    waiting
    change log/slurmctld.log "$change"
    found_short "the run does not come to itself" "a slice that is waited for, after '$change'"
done
for change in s/active/stopping/ 's/active/releasing/' s/releasing/active/ s/training/stalled/ 's/step 60/step 50/' 's/24 9_2 RUNNING/24 9_2 COMPLETING/'; do
    waiting
    change trouble "$change"
    found_short "the run does not come to itself" "a run that is waited for, after '$change'"
done
waiting
change faults '/slurmctld-kill/d'
found_short "the run does not come to itself" "a slice that is waited for, and a slurmctld that nobody has killed"
export KIND=
waiting
found_short "the run does not come to itself" "waiting, of a run that is none of slices"
export KIND=slices

twice() {
    killed
    change faults '$s/$/\n1.300 a number twice on n3/'
}
twice
by_slurm twice "n3 was drained" "a number that is given twice"
for line in slurmctld.log:17:40:21.869 slurmctld.log:17:40:33 slurmd.n3.log:already; do
    twice
    without_line "${line%%:*}" "${line#*:}"
    found "n3 was drained for a number that is there twice, and Slurm has given none twice" "a number without '${line#*:}'"
done
# Run 65 of seed 801: the new slurmctld knows job 6, not that it had begun, and begins it again, when slurmd has it still.
begun_twice() {
    make_evidence "$T/e"
    change faults '$s/^/1.050 slurmctld-kill:- begins\n1.060 slurmctld-kill:- ends \n/'
    change faults '$s/$/\n1.300 a number twice on n1/'
    logged slurmctld.log <<'X'
[2026-11-27T16:13:23.212] slurmctld version 22.05.8 started on cluster dynpipetest
[2026-11-27T16:13:28.857] _slurm_rpc_submit_batch_job: JobId=6 InitPrio=4294901756 usec=335
[2026-11-27T16:13:36.334] sched/backfill: _start_job: Started JobId=6 in other on n1
[2026-11-27T16:13:38.662] slurmctld version 22.05.8 started on cluster dynpipetest
[2026-11-27T16:13:38.799] Recovered JobId=6 Assoc=0
[2026-11-27T16:13:39.571] _job_complete: JobId=6 WEXITSTATUS 0
[2026-11-27T16:15:31.967] sched: Allocate JobId=6 NodeList=n1 #CPUs=1 Partition=other
[2026-11-27T16:15:32.023] error: Duplicate jobid on nodes n1, set to state DRAIN
X
    logged slurmd.n1.log <<'X'
[2026-11-27T16:13:36.337] Launching batch job 6 for UID 0
[2026-11-27T16:15:31.969] error: Job 6 already running, do not launch second copy
X
}
begun_twice
by_slurm twice "n1 was drained" "a job that is begun twice"
for line in slurmctld.log:Started slurmctld.log:Recovered slurmctld.log:Allocate slurmd.n1.log:already; do
    begun_twice
    without_line "${line%%:*}" "${line#*:}"
    found "n1 was drained for a number that is there twice, and Slurm has given none twice" "a job begun twice without '${line#*:}'"
done
begun_twice
change log/slurmctld.log '/Recovered/s/$/\n[2026-11-27T16:13:38.800] Recovered JobId=6 StepId=batch/'
found "n1 was drained for a number that is there twice, and Slurm has given none twice" "a job that slurmctld knows to run"

killed
change end.nodes 's/n3 idle none/n3 drained Duplicate jobid/'
by_slurm twice "n3 drained Duplicate jobid" "a node that stays drained for it"
killed
change end.nodes 's/n2 idle none/n2 drained Duplicate jobid/'
found_short "n2 drained Duplicate jobid" "a node whose slurmd knows of no such number"

# A slice that began after the last time that slurmctld had written what it knows, and a job that then gets its GPU.
forgotten() {
    killed
    change log/slurmctld.log 's/JobId=32 in other on n3/JobId=32 in main on n3/'
    change events '/ given /d'
    change events '$s/^/1.193 given n3.1 33 free\n1.195 violation 1 processes of the run on n3.1, which Slurm gave to another job: pid 5 w, of 32.0\n/'
    without_line slurmctld.log 17:40:3
}
alive="witness: 1 processes of the run on n3.1"
forgotten
by_slurm forgotten "1 processes of the run on n3.1" "a job that slurmctld has lost"
forgotten
change log/slurmctld.log '$s/$/\n[2026-11-26T17:40:27.900] Recovered JobId=32 StepId=batch/'
found "$alive" "one that it knows"
forgotten
change log/slurmctld.log '/17:40:27.184/i [2026-11-26T17:40:24.000] _job_complete: JobId=32 WEXITSTATUS 0'
found "$alive" "one that was over before"
forgotten
change faults '/slurmctld-kill/d'
found "$alive" "one that no kill explains"

# Run 14 of seed 501: n2 comes back, hears that job 4 is over, and is to begin it again 0.2 s later.
revoked() {
    make_evidence "$T/e"
    logged slurmctld.log <<'X'
[2026-11-27T07:56:10.000] slurmctld version 22.05.8 started on cluster dynpipetest
[2026-11-27T07:56:38.406] sched: Allocate JobId=1_2(4) NodeList=n2 #CPUs=1 Partition=main
[2026-11-27T07:56:52.135] requeue job JobId=1_2(4) due to failure of node n2
[2026-11-27T07:56:52.137] Requeuing JobId=1_2(4)
[2026-11-27T07:56:52.220] _job_complete: JobId=1_2(4) WEXITSTATUS 0
[2026-11-27T07:56:54.350] error: Registered PENDING JobId=1_2(4) StepId=4.0 on node n2
[2026-11-27T07:56:54.561] sched: Allocate JobId=1_2(4) NodeList=n2 #CPUs=1 Partition=main
[2026-11-27T07:56:54.566] Killing non-startable batch JobId=4: Job credential revoked
[2026-11-27T07:56:54.566] _job_complete: JobId=1_2(4) WEXITSTATUS 1
[2026-11-27T07:56:54.566] _job_complete: JobId=1_2(4) done
X
    logged slurmd.n2.log <<'X'
[2026-11-27T07:56:54.354] debug:  credential for job 4 revoked
[2026-11-27T07:56:54.567] debug:  _rpc_terminate_job: uid = 0 JobId=4
X
    [ "$KIND" = slices ] || return 0
    change end.jobs 's/JobId=7 \(.*\)COMPLETED/JobId=4 \1FAILED/'
    change end.sacct 's/^7|COMPLETED/4|FAILED/'
}
revoked
by_slurm revoked "slice 4 ends as FAILED" "a job that is refused for the life before"
for line in slurmctld.log:54.561 slurmctld.log:non-startable slurmd.n2.log:revoked; do
    revoked
    without_line "${line%%:*}" "${line#*:}"
    found_short "slice 4 ends as FAILED" "a refusal without '${line#*:}'"
done
revoked
change log/slurmctld.log '/54.566. Killing/i [2026-11-27T07:56:54.565] _job_complete: JobId=1_2(4) WEXITSTATUS 1'
found_short "slice 4 ends as FAILED" "a job that failed before it was refused"
revoked
change log/slurmctld.log '$s/$/\n[2026-11-27T07:56:55.561] sched: Allocate JobId=1_2(4) NodeList=n2 #CPUs=1 Partition=main/'
found_short "slice 4 ends as FAILED" "a job that began once more"
export KIND=
revoked_nodes() {
    revoked
    change log/slurmctld.log 's/1_2(4)/7/; s/JobId=4:/JobId=7:/'
    change log/slurmd.n2.log 's/job 4/job 7/'
    change end.job s/COMPLETED/FAILED/
    change end.sacct '$s/COMPLETED/FAILED/'
}
revoked_nodes
by_slurm revoked "the job is FAILED" "a run of whole nodes that is refused"
revoked_nodes
by_slurm revoked "accounting ends the job as FAILED" "and what accounting says of it"
revoked_nodes
without_line slurmctld.log non-startable
found_short "the job is FAILED" "a run of whole nodes that failed"
export KIND=slices

# slurmctld has died: what there was until then is judged.
died() { # TEXT
    make_evidence "$T/e"
    echo "$1" >"$T/e/died"
    rm -f "$T/e/reference" "$T"/e/end.*
}
died "signal 11 at address 0x0 in build_job_info_resp"
by_slurm "null pointer" "slurmctld has died: signal 11" "a null pointer in build_job_info_resp"
for text in "signal 11 at address 0x8 in build_job_info_resp" "signal 11 at address 0x0 in job_complete" "signal 6 at address 0x0 in build_job_info_resp" \
    "no core file says where"; do
    died "$text"
    found "slurmctld has died by itself: $text" "another death"
done
died "signal 11 at address 0x0 in build_job_info_resp"
change train.jsonl 12d
found "step 13 comes after step 11" "a violation before that"
export KIND=
died "signal 11 at address 0x0 in build_job_info_resp"
echo JobId=7 >"$T/e/job"
by_slurm "null pointer" "slurmctld has died" "that of a run of whole nodes"
export KIND=slices

# make_core FILE SIGNAL ADDRESS FUNCTION: such a core as Linux writes, of a program that died in a function of its C library.
libc=$(readlink -f "$(ldd "$(command -v perl)" | sed -n 's/.* => \(.*libc\.so[^ ]*\) .*/\1/p')")
make_core() {
    perl - "$1" "$2" "$3" "$libc" "$(nm -D --defined-only "$libc" | sed -nE "s/ [Tt] $4(@.*)?$//p" | head -n 1)" <<'P'
my ($out, $signal, $address, $program, $at) = @ARGV;
my $base = 0x7f0000000000;
my $note = sub { my ($type, $data) = @_; pack('V3a8', 5, length $data, $type, "CORE\0") . $data . "\0" x (-length($data) % 4) };
my $notes = $note->(1, pack 'x240Q<x88', $base + hex($at) + 4) . $note->(0x53494749, pack 'Vx12Q<x104', $signal, $address)
    . $note->(0x46494c45, pack('Q<5', 1, 4096, $base, $base + 0x400000, 0) . "$program\0");
open my $f, '>:raw', $out or die;
print $f "\x7fELF\x02\x01\x01" . "\0" x 9, pack('v2VQ<3Vv6', 4, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0), pack('V2Q<6', 4, 0, 120, 0, 0, length $notes, 0, 0), $notes;
P
}
where_died() { "$parts/where_died" "$libc" "$T/core" 2>&1; }
if [ "$(uname -m)" = x86_64 ] && command -v nm >/dev/null; then
    make_core "$T/core" 11 0 qsort
    like "$(where_died)" "^signal 11 at address 0x0 in qsort$" "where a program died"
    make_core "$T/core" 7 4096 memfrob
    like "$(where_died)" "^signal 7 at address 0x1000 in memfrob$" "another one elsewhere"
    truncate -s 200 "$T/core"
    like "$(where_died)" "cut short" "a core file that is not whole"
fi

begin_witness
gpu_says() { # JOB GPU PARTITION
    slurm_says "gres_job_state gres:gpu(7696487) type:(null)(0) job:$1 flags:"
    slurm_says "  gres_bit_alloc[0]:$2 of 4"
    slurm_says "sched/backfill: _start_job: Started JobId=$1 in $3 on n2"
}
# All of the journal first: it says that job 8 was given back before it came again, and none of its processes may be seen at that record.
wait_for 60 saw ' record n1 job-7.0 SEAT 8.1$' || bail "the witness does not read the journal"
env -i SLURM_JOB_ID=8 SLURM_JOB_NAME=train SLURM_JOB_GPUS=1 SLURMD_NODENAME=n2 SLURM_CONF="$T/c/etc/slurm.conf" sleep 100 &
worker=$!
left="$left $worker"
wait_for 60 grep -qz SLURM_JOB_ID=8 /proc/$worker/environ
gpu_says 8 1 main
wait_for 60 saw ' taken n2.1$'
gpu_says 20 2 other
wait_for 60 saw ' given n2.2 20 free$'
ok $? "slices: a GPU beside goes to another job"
gpu_says 21 1 other
wait_for 60 saw "violation 1 processes of the run on n2.1, which Slurm gave to another job: pid $worker .*, of 8.0$"
ok $? "slices: a process of the run on a GPU that Slurm gives away"
end_processes $worker
left=${left%% *}
end_witness
# It may be seen twice before it has ended.
is "$(sed -n 's/.* violation //p' "$T/w/events" | sort -u | wc -l)" 1 "slices: and nothing else"
export KIND=

# ---- what the campaign is asked for --------------------------------------------------------------------------------------
campaign=$DP_SRCDIR/tests/campaign
is "$("$campaign" --seed 4 --runs 20 --list)" "$("$campaign" --seed 4 --runs 20 --list)" "a seed always gives the same plans"
isnt "$("$campaign" --seed 4 --only 3 --list | sed 's/^[^:]*://')" "$("$campaign" --seed 5 --only 3 --list | sed 's/^[^:]*://')" "another seed other ones"
is "$("$campaign" --seed 4 --only 3 --list)" "$("$campaign" --seed 4 --runs 20 --list | sed -n 3p)" "--only is the run of that number"
like "$("$campaign" --help)" "--seed S --runs N" "--help"
refused() { # WHY OPTION...
    local why=$1
    shift
    "$campaign" "$@" >"$T/said" 2>&1
    is "$?" 2 "refused: $*"
    like "$(cat "$T/said")" "$why" "refused: $*: why"
}
refused "unknown option '--fast'" --seed 1 --runs 2 --fast
refused "--seed: '-1' is not a number" --seed -1 --runs 2
refused "--runs: '0' is not a number" --seed 1 --runs 0
refused "--runs: '2x' is not a number" --seed 1 --runs 2x
refused "--runs wants a value" --seed 1 --runs
refused "--seconds: 'soon' is not a number" --seed 1 --runs 2 --seconds soon
refused "--seed is missing" --runs 2
refused "--runs or --only is missing" --seed 1
refused "two ways" --seed 1 --runs 2 --only 1
refused "--kind: there is no 'mice', only" --seed 1 --runs 2 --kind mice
refused "--kind: there is no 'mice', only" --seed 1 --runs 2 --kind slices,mice
refused "--fault: no such run has 'mice-eat'" --seed 1 --runs 2 --fault mice-eat
refused "--fault: no such run has 'worker-kill'" --seed 1 --runs 2 --kind slices --fault worker-kill
refused "--fault: no such run has 'slurmctld-kill'" --seed 1 --runs 2 --fault slurmctld-kill --spare-slurm
refused "--fault: '.' is no name of a fault" --seed 1 --runs 2 --fault .
refused "--fault wants a value" --seed 1 --runs 2 --fault
refused "behind --runs" --seed 1 --runs 2 --from 3
# Every fault and every moment that a plan can name is there.
# shellcheck source=tests/campaign.d/moments.sh
. "$parts/moments.sh"
# shellcheck source=tests/campaign.d/faults.sh
. "$parts/faults.sh"
# shellcheck disable=SC1090 # whatever kinds there are
for f in "$parts"/kinds/*.sh; do . "$f"; done
missing=$("$campaign" --seed 4 --runs 200 --list | grep -oE '[a-z]+(-[a-z]+)+(:[A-Za-z0-9]+)?@[a-z]+' | sed 's/:[^@]*//' | sort -u | while IFS=@ read -r name moment; do
    declare -F "fault_${name//-/_}" >/dev/null || echo "fault $name"
    moment_pattern "$moment" >/dev/null || echo "moment $moment"
done)
is "$missing" "" "every fault and every moment of 200 plans is there"
plans=$("$campaign" --seed 4 --runs 200 --kind slices --list)
for name in clock-ahead clock-back slurm-clock-ahead slurm-clock-back slurmd-clock-ahead slurmd-clock-back slurmdbd-clock-ahead \
    slurmdbd-clock-back munged-clock-ahead munged-clock-back munged-clock-swing answers-lost answers-twice answers-late disk-cut node-power; do
    like "$plans" " ${name}[:@]" "plans have $name"
done
like "$plans" "made=companions [^@]*most=[1-9]" "plans have runs that may grow"
unlike "$plans" "made=array [^@]*most=[1-9]" "but no arrays, which may not"
plans=$("$campaign" --seed 4 --runs 40 --kind copied --list)
like "$plans" "as=node_shrink large=1" "layers are copied in runs of nodes"
like "$plans" "as=slices large=1" "and of slices"
plans=$("$campaign" --seed 4 --runs 60 --kind hot_copies --list)
for name in slice-cut slice-kill node-lost node-power worker-kill worker-others; do like "$plans" " $name:[^ ]*@regroup" "runs with copies have $name when they regroup"; done
unlike "$plans" " keep=[2-9]" "and go on with whoever is left"
plans=$("$campaign" --seed 4 --runs 40 --kind returns --list)
unlike "$plans" " run-[a-z]*:| slurmctld-kill:" "no run whose slices come again is ended as a whole, or asked of a slurmctld that forgets"

plans=$("$campaign" --seed 4 --runs 6 --fault slurmdbd-clock-ahead --list)
is "$(grep -c ' dbd=1 .* slurmdbd-clock-ahead@' <<<"$plans")" 6 "every run has the fault that is asked for, and a slurmdbd where it wants one"
plans=$("$campaign" --seed 4 --runs 40 --kind node_shrink,slices --spare-slurm --list)
like "$plans" ": node_shrink " "two kinds are two kinds"
like "$plans" ": slices " "both of them"
unlike "$plans" ": (copied|hot_copies|returns) " "and no others"
unlike "$plans" " (slurmctld-kill|slurmdbd-kill|slurm-clock-[a-z]*|slurmd-clock-[a-z]*|slurmdbd-clock-[a-z]*|node-lost|node-power)[:@]" "--spare-slurm"
like "$plans" " worker-kill:" "which leaves the rest"

# ---- what faults do ------------------------------------------------------------------------------------------------------
make_evidence "$T/e"
is "$(epoch_in "$T/e/journals/n1.0000.job-7.0.journal")" 2 "the newest epoch of a journal"
make_evidence "$T/e" COMMIT DONE
is "$(epoch_in "$T/e/journals/n1.0000.job-7.0.journal")" 0 "that of its start, where no hand-over was decided"
make_evidence "$T/e"
file=$T/e/journals/n1.0000.job-7.0.journal
truncate -s -1 "$file"
is "$(epoch_in "$file")" 2 "a torn end does not hide it"
is "$(epoch_in "$T/none")" "" "no journal has none"

# A sanitizer's library wants to be loaded first.
if [ -z "$(sed -n 's/^SANITIZER_CFLAGS *= *//p' "$DP_BUILDDIR/Makefile")" ]; then
    is_off() { # SECONDS
        local before now
        before=$(date +%s)
        now=$(LD_PRELOAD=$DP_BUILDDIR/tests/campaign.d/shift_clock.so DP_FAULTS=$T SLURMD_NODENAME=n1 date +%s)
        [ $((now - $1)) -ge "$before" ] && [ $((now - $1)) -le "$(date +%s)" ]
    }
    runs "a clock that nobody shifts" is_off 0
    echo 1200 >"$T/n1.clock"
    runs "a clock that is ahead" is_off 1200
    echo -7200 >"$T/n1.clock"
    runs "a clock that is set back" is_off -7200
    rm "$T/n1.clock"
    runs "and set right again" is_off 0
fi
done_testing
