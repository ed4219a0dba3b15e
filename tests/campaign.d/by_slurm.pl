# SPDX-License-Identifier: BSD-3-Clause
# What Slurm does wrong by itself, told from what DynPipe does wrong: by what Slurm's own logs say, line after line, never by the
# lack of something else. Each question answers with the name of what Slurm did, or with nothing; then the finding stays what it is.
# Where a log is missing, or its lines are others (another release), nothing is Slurm's. judge asks.
#
#   stale kill    a node comes back, slurmctld begins the slice there that it had requeued, and what was to end the life before, which
#                 waited for that slurmd, ends the new batch script while its step begins. slurmctld calls the job over and gives its
#                 place away; the step lives
#   forgotten     a slurmctld that was killed has lost that it began a job, which runs on, and gives its place away
#   ended before  a slurmctld that was killed shows a job as running that had ended before, and that runs nowhere
#   twice         a slurmctld that was killed gives a number again; slurmd has it still, and slurmctld drains the node
#   revoked       a job ends on a node and begins there again within one second of slurmctld.s clock, or earlier by it, as it was set back:
#                 its slurmd takes the new credential for one of the life before, and slurmctld ends the job as failed
package BySlurm;
use strict;
use warnings;

my $JOB = qr/JobId=(?:\d+_\d+\()?(\d+)\b\)?/; # JobId=7, or JobId=5_1(7) of a task of an array

sub lines_of {
    my ($file) = @_;
    open my $f, '<:raw', $file or return;
    return <$f>;
}

# new(EVIDENCE, FAULTS, EVENTS): the folder; what was done to the run, and what the witness saw, as texts.
sub new {
    my ($class, $dir, $faults, $events) = @_;
    my $self = bless {dir => $dir, events => $events, said => []}, $class;
    my $age = 0; # how often slurmctld had been begun again
    for (lines_of("$dir/log/slurmctld.log")) {
        my ($time, $text) = /^\[(\S+)\] (.*)/ or next;
        my %line = (time => $time, what => 'other');
        if ($text =~ /^slurmctld version \S+ started/) { $age++ if @{$self->{said}}; %line = (%line, what => 'started') }
        elsif ($text =~ /$JOB/) {
            $line{job} = $1;
            if ($text =~ /^sched: Allocate $JOB NodeList=(\S+) .*Partition=(\S+)/) { @line{qw(what node partition)} = ('begin', $2, $3) }
            elsif ($text =~ /: Started $JOB in (\S+) on (\S+)/) { @line{qw(what node partition)} = ('begin', $3, $2) }
            elsif ($text =~ /^Recovered $JOB StepId=/) { $line{what} = 'runs' }
            elsif ($text =~ /^Recovered $JOB/) { $line{what} = 'recovered' }
            elsif ($text =~ /^_slurm_rpc_submit_batch_job: /) { $line{what} = 'submitted' }
            elsif ($text =~ /^_job_complete: $JOB WTERMSIG 15$/) { $line{what} = 'ended by TERM' }
            elsif ($text =~ /^_job_complete: $JOB (WEXITSTATUS|WTERMSIG|done)/) { $line{what} = 'ended' }
            elsif ($text =~ /^requeue job $JOB due to failure of node (\S+)/) { @line{qw(what node)} = ('node lost', $2) }
            elsif ($text =~ /^Requeuing $JOB/) { $line{what} = 'requeued' }
            elsif ($text =~ /^Killing non-startable batch $JOB: Job credential revoked$/) { $line{what} = 'refused' }
            elsif ($text =~ /_update_job: | StepId=\d/) { $line{what} = 'harmless' }
        } else { next }
        $line{age} = $age;
        push @{$self->{said}}, \%line;
    }
    # Each time that slurmctld began again somebody had killed it, and nobody has set a clock of Slurm's.
    my $kills = () = $faults =~ /slurmctld-kill:\S+ begins/g;
    $self->{was_killed} = $age > 0 && $age == $kills && @{$self->{said}} && $self->{said}[0]{what} eq 'started';
    $self->{age} = $age;
    %{$self->{lost}} = map { $_ => 1 } $faults =~ / node-(?:lost|power):(\S+) begins/g;
    $self->{is_timed} = $faults !~ / slurmd?-clock-/; # the times of two logs can be compared
    return $self;
}

# Lines of slurmd's log as [time, text].
sub slurmd {
    my ($self, $node) = @_;
    return @{$self->{slurmd}{$node} //= [map { /^\[(\S+)\] (.*)/ ? [$1, $2] : () } lines_of("$self->{dir}/log/slurmd.$node.log")]};
}

# What slurmctld says of a job, in its order.
sub said_of { my ($self, $job) = @_; return grep { ($_->{job} // -1) == $job } @{$self->{said}} }

# Has what was to end the life before ended this life of the job on that node? Slurm has put the job back because the node was lost;
# begins it there; slurmd launches it, is told to end it for a node that failed, and slurmctld hears that TERM ended it, while
# nobody has asked for its end. returns slurmctld's line of the end.
sub stale_kill {
    my ($self, $job, $life, $node) = @_;
    return unless $self->{lost}{$node} && $self->{is_timed} && $life > 0;
    my ($lives, $is_lost, $begin, $end) = (0, 0);
    for my $line ($self->said_of($job)) {
        my $what = $line->{what};
        if ($what eq 'requeued') { ($begin, $lives) = (undef, $lives + 1) }
        elsif ($what eq 'node lost') { $is_lost = $line->{node} eq $node }
        elsif ($what eq 'begin') {
            $begin = $lives == $life && $is_lost && $line->{node} eq $node ? $line : undef;
            $is_lost = 0;
        } elsif ($begin && $what ne 'harmless') {
            $end = $line if $what eq 'ended by TERM';
            last;
        }
    }
    return unless $end;
    my ($is_launched, $is_told);
    for ($self->slurmd($node)) {
        my ($time, $text) = @$_;
        next if $time lt $begin->{time} || $time gt $end->{time};
        if ($text =~ /^Launching batch job $job for UID/) { $is_launched = 1 }
        elsif ($text =~ /^\[$job\.batch\] error: \*\*\* JOB $job ON $node CANCELLED AT \S+ DUE TO NODE FAILURE/) { return $end if $is_launched && $is_told }
        elsif ($text =~ /_rpc_terminate_job: uid = \d+ JobId=$job$/) { $is_told = $is_launched }
    }
    return;
}

# Has a slurmctld that was killed lost that it began this job, which was not over then?
sub is_forgotten {
    my ($self, $job) = @_;
    return unless $self->{was_killed};
    my ($runs, $age);
    for my $line ($self->said_of($job)) {
        my $what = $line->{what};
        if ($what eq 'begin') { ($runs, $age) = (1, $line->{age}) }
        elsif ($what eq 'runs') { $age = $line->{age} }
        elsif ($what !~ /^(harmless|recovered|submitted)$/) { $runs = 0 if defined $age && $line->{age} == $age }
    }
    return $runs && $age < $self->{age};
}

# witness(VIOLATION, JOB): of processes at a place that went to that job, or that the run says Slurm has back.
sub witness {
    my ($self, $text, $other) = @_;
    my ($node) = $text =~ /^\d+ processes of (?:the run|slice \d+) on (n\d+)(?:\.\d+)?, which / or return;
    my @who = $text =~ /, of ([\d. ]+)$/ ? split / /, $1 : return;
    my @jobs = map { /^(\d+)\.\d+$/ ? $1 : return } @who;
    for (@who) { return if $self->{events} =~ / record \S+ \S+ DRAIN \Q$_\E$/m } # what the run began to give back is its own affair
    return 'forgotten' unless grep { !$self->is_forgotten($_) } @jobs;
    return if @who > 1;
    my $end = $self->stale_kill($who[0] =~ /^(\d+)\.(\d+)$/, $node) or return;
    return 'stale kill' if $text =~ /, which the run says Slurm has back:/;
    # The other job has begun there after Slurm called this one over.
    my $is_over;
    for my $line (@{$self->{said}}) {
        $is_over = 1 if $line == $end;
        return 'stale kill' if $is_over && $line->{what} eq 'begin' && $line->{job} == ($other // -1) && $line->{node} eq $node;
    }
    return;
}

# revoked(JOB): was the last thing that Slurm did with the job to begin it where slurmd had revoked its credentials, and to end it for that?
sub revoked {
    my ($self, $job) = @_;
    my ($node, $is_refused);
    for my $line ($self->said_of($job)) {
        my $what = $line->{what};
        if ($what eq 'begin') { ($node, $is_refused) = ($line->{node}, 0) }
        elsif ($what eq 'refused') { $is_refused = defined $node }
        elsif ($what eq 'requeued' || $what eq 'node lost') { ($node, $is_refused) = (undef, 0) }
        elsif ($what ne 'harmless' && !$is_refused) { $node = undef } # it was over for another reason
    }
    return unless $is_refused;
    return 'revoked' if grep { $_->[1] =~ /^debug:\s+credential for job $job revoked$/ } $self->slurmd($node);
    return;
}

# Had this job ended before slurmctld was killed, for slurmctld and for slurmd, did the next slurmctld take it for running, and has slurmd
# not begun it since? is_ours: is it one of the run's?
sub ended_before {
    my ($self, $job, $node, $is_ours) = @_;
    return unless $self->{was_killed} && $self->{is_timed};
    my ($is_that, $ended, $risen) = (0);
    for my $line ($self->said_of($job)) {
        my $what = $line->{what};
        if ($what eq 'begin') { ($is_that, $ended, $risen) = (($line->{partition} eq 'main') == $is_ours && $line->{node} eq $node) }
        elsif ($what =~ /^ended/) { $ended = $line }
        elsif ($what eq 'runs') { $risen = $line if $ended && $line->{age} > $ended->{age} }
    }
    return unless $is_that && $risen;
    my @launched = grep { $_->[1] =~ /^Launching batch job $job for UID/ } $self->slurmd($node);
    my @completed = grep { $_->[1] =~ /^\[$job\.batch\] job $job completed with/ } $self->slurmd($node);
    return unless @launched == 1 && @completed == 1 && $completed[0][0] lt $risen->{time};
    return 'ended before';
}

# job_left(JOB, NODE): one that Slurm shows as running in the end, and that is none of the run's.
sub job_left { my ($self, $job, $node) = @_; return $self->ended_before($job, $node, 0) }

# waits(TROUBLE): of a run of slices that does not come to itself. It trains, all its places are where they belong but for those that it
# waits for Slurm to have back, and just as many of its slices Slurm shows as running that had ended before.
sub waits {
    my ($self, $text) = @_;
    my ($jobs, $slots, $is_at, $was_at) = $text =~
        /^after all faults the run does not come to itself: jobs (.*) home \d+, coordinator n\d+: state training, slots ([a-z ]+), at .*, step (\d+) after (\d+)$/
        or return;
    my $n = () = $slots =~ /\breleasing\b/g;
    return if $is_at <= $was_at + 20 || $slots =~ /\b(drained|stopping|gone)\b/;
    my @ended = grep { /^(\d+) \S+ RUNNING (n\d+)$/ && $self->ended_before($1, $2, 1) } split /;/, $jobs;
    return $n && @ended == $n ? 'ended before' : undef;
}

# drained_twice(NODE): is a number that slurmctld gave to two jobs why it drained that node, or a job that it began there, has forgotten to
# have begun, and begins there again? slurmd says which one it has still.
sub drained_twice {
    my ($self, $node) = @_;
    return unless $self->{was_killed} && $self->{is_timed};
    for ($self->slurmd($node)) {
        my ($time, $text) = @$_;
        next unless $text =~ /^error: Job (\d+) already running, do not launch second copy/;
        my $job = $1;
        my (%first, %is_recovered, $begun);
        for my $line ($self->said_of($job)) {
            if ($line->{what} eq 'begin' && $line->{node} eq $node) {
                return 'twice' if defined $begun && $begun < $line->{age} && $is_recovered{$line->{age}} && $line->{time} lt $time;
                $begun = $line->{age};
            } elsif ($line->{what} =~ /^(runs|requeued|node lost)$/) { $begun = undef } # it knows
            $is_recovered{$line->{age}} = 1 if $line->{what} =~ /^(recovered|runs)$/;
            $first{$line->{age}} //= $line->{time} if $line->{what} eq 'submitted' && !$is_recovered{$line->{age}};
        }
        my @ages = sort { $a <=> $b } keys %first;
        return 'twice' if @ages > 1 && $first{$ages[-1]} lt $time;
    }
    return;
}

# died(TEXT): slurmctld's end, as where_died tells it. 22.05.8 does that now and then when it is asked for a job of an array.
sub died { my ($text) = @_; return $text =~ /^signal 11 at address 0x0 in build_job_info_resp$/ ? 'null pointer' : undef }

1;
