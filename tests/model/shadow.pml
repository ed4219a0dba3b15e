/* SPDX-License-Identifier: BSD-3-Clause */
/* shadow.pml - layers of a hand-over that are copied while training goes on, as doc/protocol.md says it ("While training goes on") and
 * worker/shadow/, worker/step/step_order.c and worker/train/background.c do it: two workers, of which one has a layer for the other, or
 * (L 2) each has one for the other. They make N steps; EE of them change layers behind them (pruning, freezing); BB hand-overs begin, and
 * may be aborted at any step; AA messages are damaged, FF times a destination cannot do what a change needs, DD workers die. Checked by
 * handover_check.t.
 *
 * Each action is what one process does between two waits. A state goes from where it lies, so its content is that of the moment at which
 * it arrives; gradients go from a copy. The exchange that ends a step is Leader, who hears both. A layer is U units, each of which has done
 * a number of steps and of changes: those of its layer, in a right copy. What a loss leads to is in copies.pml; here it is whether the
 * destination has the layer then. Heads, pace and PREPARE are not in here.
 *
 * -DM1 ... -DM11 are wrong protocols, each of which breaks an assertion or comes to no end.
 */
#ifndef N
#define N 6
#endif
#ifndef L
#define L 1
#endif
#ifndef EE
#define EE 1
#endif
#ifndef BB
#define BB 2
#endif
#ifndef AA
#define AA 1
#endif
#ifndef FF
#define FF 1
#endif
#ifndef DD
#define DD 1
#endif
#define U 2
#define WRONG 99
mtype = { NOTHING, BEGIN, GO_ON, DROP, YES, NO };

/* Of workers. */
bool up[2] = 1, on[2], more[2], vain[2], changing[2]; /* on: copies; changing: and has not done the last change again yet */
byte did[2], given[2];
mtype vote[2];
/* The order of the newest step, what was decided, and what the leader knows. */
byte ordered, n_begun, n_events, n_damaged, n_failed, n_deaths;
mtype shadow = NOTHING, decided = NOTHING;
bool event, handover, copying, committed;
/* Of layer l, of worker l: changes that were made to it (its steps are did[l]); units that were sent, that go next. */
byte changes[2], sent[2], next[2];
/* At its destination: units that came, or were asked for, and what they are; spoilt: not all of it can be right, known to no worker. */
byte copied[2], unit_steps[4], unit_changes[4];
bool spoilt[2];
/* Messages under way, 0: none. Word: gradients for so many units, less one, and so many units more are announced. State: a unit's number,
 * from 1; asked: by the destination. Bits: what a change left. */
byte word[2], announced[2], state[2], asked[2];
bool bits[2], is_bad[2];
mtype answer[2] = NOTHING;

#define lost (!up[0] || !up[1])
#define is_out (_pid < L)
#define O _pid
#define I (1 - _pid)
#define is_in (I < L)
#define await(cond) if :: cond :: lost -> goto ended fi
#define is_it(l, u) (unit_steps[2 * l + u] == did[l] && unit_changes[2 * l + u] == changes[l])
#define is_whole(l) (copied[l] == U && is_it(l, 0) && is_it(l, 1))
/* Where only a part of a layer is there a change costs a unit: what is left fills no last one. */
#define rest(n) (n == 0 || n == U -> n : n - 1)
#ifdef M11 /* the ends do not agree on how much of a part is left by a change */
#define rest_there(n) (n)
#else
#define rest_there(n) rest(n)
#endif

/* The destination hears what a change left of the layer, and does the same, or cannot. */
inline follow_in()
{
    await(bits[I]);
    atomic {
        bits[I] = 0;
        if
        :: n_failed < FF -> n_failed++; spoilt[I] = 1; vain[_pid] = 1; copied[I] = 0; answer[I] = NO
        :: copied[I] = rest_there(copied[I]);
#ifdef M7 /* the destination leaves its copy as it is */
            skip;
#else
            unit_changes[2 * I]++; unit_changes[2 * I + 1]++;
#endif
            answer[I] = YES
        fi
    }
}

inline follow_out()
{
#ifdef M6 /* the source does not wait for an answer */
    atomic { answer[O] = NOTHING; sent[O] = rest(sent[O]) }
#else
    await(answer[O] != NOTHING);
    atomic {
        sent[O] = (answer[O] == YES -> rest(sent[O]) : 0);
        if :: answer[O] == NO -> vain[_pid] = 1 :: else fi;
        answer[O] = NOTHING
    }
#endif
}

inline follow()
{
    if
    :: changing[_pid] ->
#ifdef M9 /* whoever waits for an answer gives none before */
        if :: is_out -> follow_out() :: else fi;
        if :: is_in -> follow_in() :: else fi;
#else
        if :: is_in -> follow_in() :: else fi;
        if :: is_out -> follow_out() :: else fi;
#endif
        changing[_pid] = 0
    :: else
    fi
}

/* Behind the backward of a step: its gradients. */
inline send_gradients()
{
#ifdef M1 /* the source does not wait until a state is there */
    await(word[O] == 0);
#else
    await(word[O] == 0 && state[O] == 0);
#endif
    atomic {
#ifdef M2 /* no gradients for what was copied at the boundary before */
        word[O] = 1 + sent[O] - next[O];
#else
        word[O] = 1 + sent[O];
#endif
        next[O] = (sent[O] < U && !vain[_pid] -> 1 : 0);
        announced[O] = next[O]
    }
}

/* The destination waits for what came for a step, and does it again. */
inline replay()
{
    await(word[I] > 0 && asked[I] == 0);
    atomic {
        assert(word[I] - 1 == copied[I]);
        if :: copied[I] > 0 -> unit_steps[2 * I] = (is_bad[I] -> WRONG : unit_steps[2 * I] + 1) :: else fi;
        if :: copied[I] > 1 -> unit_steps[2 * I + 1]++ :: else fi;
        if :: is_bad[I] -> vain[_pid] = 1; spoilt[I] = 1 :: else fi;
        is_bad[I] = 0; word[I] = 0
    }
}

inline forget() { atomic { on[_pid] = 0; vain[_pid] = 0; changing[_pid] = 0 } }

#ifdef M4 /* more state goes at a boundary that changes layers, too */
#define copies_more (shadow == GO_ON)
#else
#define copies_more (shadow == GO_ON && !event)
#endif

active [2] proctype Worker()
{
    do
    :: did[_pid] == N || lost -> break
    :: else ->
        if
        :: on[_pid] ->
            follow();
            if :: is_out -> send_gradients() :: else fi
        :: else
        fi;
        atomic { more[_pid] = on[_pid] && (is_out && sent[O] < U || is_in && copied[I] < U); given[_pid]++ }
        await(ordered > did[_pid]);
        did[_pid]++;
        if
        :: on[_pid] && shadow != DROP ->
            if
            :: is_out && copies_more && next[O] -> atomic { sent[O]++; assert(state[O] == 0); state[O] = sent[O] }
            :: is_out && !copies_more -> next[O] = 0
            :: else
            fi;
            if
            :: is_in ->
                replay();
                atomic { if :: copies_more && announced[I] -> copied[I]++; asked[I] = copied[I] :: else fi }
            :: else
            fi
        :: on[_pid] && shadow == DROP ->
#ifdef M10 /* where all forget what was copied nobody waits for what is under way */
            skip;
#else
            if :: is_in -> replay() :: else fi;
            if :: is_out -> await(word[O] == 0 && state[O] == 0) :: else fi;
#endif
            forget()
        :: else
        fi;
        if
        :: event -> atomic {
            changes[_pid]++;
            if :: on[_pid] -> changing[_pid] = 1; if :: is_out -> bits[O] = 1 :: else fi :: else fi }
        :: else
        fi;
        if
        :: handover ->
#ifdef M3 /* a hand-over at a boundary that changes layers does not wait until the destinations have done the same */
            skip;
#else
            follow();
#endif
            await(word[O] == 0 && did[I] == did[_pid] && changes[I] == changes[_pid]); /* the digest of the source is here */
            if
#ifdef M5 /* the destination votes without a look at it */
            :: vote[_pid] = YES
#else
            :: is_in && !is_whole(I) -> atomic { assert(spoilt[I]); vote[_pid] = NO }
            :: !is_in || is_whole(I) -> vote[_pid] = YES
#endif
            fi;
            await(decided != NOTHING);
            assert(decided == NO || !is_in || is_whole(I)); /* it trains that layer from here on */
            forget()
        :: shadow == BEGIN ->
            atomic {
                on[_pid] = 1;
                if :: is_out -> assert(word[O] == 0 && state[O] == 0 && !bits[O] && answer[O] == NOTHING); sent[O] = 0; next[O] = 0 :: else fi;
                if :: is_in -> copied[I] = 0; spoilt[I] = 0 :: else fi
            }
        :: else
        fi
    od;
ended:
    /* Where the other one is lost a destination has the layer when the journal says so. */
    if
#ifdef M8 /* what is wholly copied is the layer, whatever was decided */
    :: up[_pid] && lost && is_in && on[_pid] && copied[I] == U && !spoilt[I] ->
#else
    :: up[_pid] && lost && is_in && on[_pid] && committed ->
#endif
        assert(is_whole(I) && did[_pid] == ordered)
    :: else
    fi
}

/* What the transport does: a state arrives as it is then. */
active proctype Net()
{
    byte l;
end:
    do
    :: atomic { state[0] > 0 && asked[0] > 0 -> l = 0; goto arrives }
    :: atomic { L == 2 && state[1] > 0 && asked[1] > 0 -> l = 1; goto arrives }
    :: atomic { n_damaged < AA && word[0] > 1 && !is_bad[0] && !spoilt[0] -> n_damaged++; is_bad[0] = 1 }
    :: atomic { n_deaths < DD && !lost -> n_deaths++; up[0] = 0 }
    :: atomic { n_deaths < DD && !lost -> n_deaths++; up[1] = 0 }
    od;
arrives:
    atomic {
        assert(state[l] == asked[l]);
        unit_steps[2 * l + state[l] - 1] = did[l];
        unit_changes[2 * l + state[l] - 1] = changes[l];
        state[l] = 0; asked[l] = 0;
        goto end
    }
}

active proctype Leader()
{
end:
    do
    :: atomic { !lost && ordered < N && given[0] > ordered && given[1] > ordered ->
        ordered++;
        event = 0; handover = 0; shadow = NOTHING; decided = NOTHING; vote[0] = NOTHING; vote[1] = NOTHING;
        if :: n_events < EE -> n_events++; event = 1 :: skip fi;
        if
        :: copying && ordered == N -> shadow = DROP
        :: copying && ordered < N && (vain[0] || vain[1]) -> shadow = DROP
        :: copying && ordered < N && !(vain[0] || vain[1]) && !(more[0] || more[1]) -> handover = 1
        :: copying && ordered < N && !(vain[0] || vain[1]) && (more[0] || more[1]) -> shadow = GO_ON
        :: copying && ordered < N -> shadow = DROP /* it was aborted */
        :: !copying && ordered < N && n_begun < BB && !committed -> shadow = BEGIN; n_begun++
        :: !copying -> skip
        fi;
        copying = (shadow == BEGIN || shadow == GO_ON) }
    /* The coordinator: all are in favour, or it is given up. */
    :: atomic { vote[0] != NOTHING && vote[1] != NOTHING && decided == NOTHING ->
        if
        :: vote[0] == YES && vote[1] == YES -> decided = YES; committed = 1
        :: decided = NO
        fi }
    od
}
