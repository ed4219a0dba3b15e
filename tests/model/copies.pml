/* SPDX-License-Identifier: BSD-3-Clause */
/* copies.pml - layers that other workers follow, and what goes on after a loss, as doc/protocol.md says it ("Copies", "From the layers
 * that are left") and worker/copies/, worker/train/lost/rescue.c and rescue_plan.c do it: three workers, with a layer each at the beginning,
 * make S steps; MM hand-overs give a layer to the worker that has a whole copy of it; DD workers die, at any moment, in the middle of a
 * rescue, too. Checked by handover_check.t.
 *
 * Each action is what one process does between two messages. A dead worker's message arrives or not. What a rescue agrees on is one
 * action, since all agree or nobody goes on; the layers that move are not. Where a loss leads back to the checkpoint the run is over
 * here: it may only where no whole instance of a layer is left. Pruning and the log are not in here, nor how a copy becomes whole and
 * what a hand-over's decision is made of (shadow.pml, handover.pml).
 *
 * -DM1 ... -DM7 are wrong protocols, each of which breaks an assertion.
 */
#ifndef S
#define S 3
#endif
#ifndef DD
#define DD 2
#endif
#ifndef MM
#define MM 0
#endif
#define W 3
#define NONE 3
mtype = { TRAIN, SWITCH, MOVE, OVER };
mtype phase; /* none before Rescue has placed the first copies */

/* Of workers: the step whose gradients are whole, whose part of the sums was given, whose order was sent to it and heard, that it did. */
bool up[W] = 1, member[W] = 1; /* member: of the layout in force, which does not know of deaths */
byte grads[W], given[W], sent[W], heard[W], did[W];
byte ordered, leader, deaths;

/* Of layers: who has it; who follows it, how many steps that has done, the newest gradients there, and those on their way. */
byte owner[W], holder[W], copied[W], there[W], coming[W];
bool whole[W];    /* all units of the copy are there */
bool was_whole[W]; /* as a right protocol would have it: known to no worker */
byte to[W];       /* in a rescue: who is to have it; NONE: it stays */
bool came[W];     /* and has it, beside what its provider has */

byte n_moves;
bool is_lent; /* the copy that becomes a layer */

#define lives(w) (w != NONE && up[w])
#define can(l, k) (whole[l] && (copied[l] == k || copied[l] + 1 == k && there[l] >= k))
#define has_copy(l, k) (lives(holder[l]) && can(l, k))
#define one_dead (member[0] && !up[0] || member[1] && !up[1] || member[2] && !up[2])
#define parts_given(w) (!member[w] || given[w] > ordered)
#ifdef M1 /* a holder does not wait for the gradients of its copies */
#define has_gradients(l, w) true
#else
#define has_gradients(l, w) (holder[l] != w || !whole[l] || there[l] >= grads[w])
#endif
#ifdef M2 /* a worker gives its part of a step before it has done the one before */
#define may_begin(w) (grads[w] == given[w] && grads[w] <= did[w] + 1)
#else
#define may_begin(w) (grads[w] == did[w])
#endif
#ifdef M5 /* copies become whole in the middle of a step */
#define is_at_rest(w) true
#else
#define is_at_rest(w) (grads[w] == did[w])
#endif
#define is_between(w) (!member[w] || did[w] == ordered && grads[w] == ordered && heard[w] == ordered)
#define may_move(l) (whole[l] && copied[l] == ordered && lives(holder[l]) && lives(owner[l]))
#define each(i) i = 0; do :: i < W ->
#define end_each(i) i++ :: else -> i = 0; break od

active [W] proctype Worker()
{
    byte l;
end:
    do
    :: atomic { phase == TRAIN && up[_pid] && may_begin(_pid) && grads[_pid] < S -> grads[_pid]++;
        each(l) if :: owner[l] == _pid && whole[l] -> coming[l] = grads[_pid] :: else fi; end_each(l) }
    :: atomic { phase == TRAIN && up[_pid] && grads[_pid] > given[_pid] && has_gradients(0, _pid) && has_gradients(1, _pid) &&
        has_gradients(2, _pid) -> given[_pid] = grads[_pid] }
    :: atomic { phase == TRAIN && up[_pid] && sent[_pid] > heard[_pid] -> heard[_pid] = sent[_pid] }
    :: atomic { phase == TRAIN && up[_pid] && heard[_pid] > did[_pid] -> did[_pid]++;
        each(l)
            if
            :: holder[l] == _pid && whole[l] && there[l] >= did[_pid] -> copied[l] = did[_pid]
            :: else
            fi;
        end_each(l) }
    :: atomic { phase == TRAIN && up[_pid] && leader == _pid && ordered < S && parts_given(0) && parts_given(1) && parts_given(2) ->
        ordered++; heard[_pid] = ordered;
        each(l) if :: l != _pid && member[l] -> sent[l] = ordered :: else fi; end_each(l) }
    od
}

/* What moves between workers: gradients that arrive, and copies that become whole at a boundary (their states came before). */
active [W] proctype Layer()
{
    byte l = _pid - W;
end:
    do
    :: atomic { phase == TRAIN && coming[l] > 0 && lives(holder[l]) -> there[l] = coming[l]; coming[l] = 0 }
    :: atomic { phase == TRAIN && !whole[l] && lives(holder[l]) && lives(owner[l]) && did[owner[l]] == did[holder[l]] &&
        is_at_rest(owner[l]) && is_at_rest(holder[l]) ->
        whole[l] = 1; was_whole[l] = 1; copied[l] = did[owner[l]]; there[l] = copied[l]; coming[l] = 0 }
    :: atomic { phase == MOVE && to[l] != NONE && !came[l] && up[to[l]] && (lives(owner[l]) || lives(holder[l]) && whole[l]) ->
#ifdef M3 /* what was sent is let go of before all have agreed */
        whole[l] = 0;
#endif
        came[l] = 1 }
    od
}

active [W] proctype Death()
{
    byte w = _pid - 2 * W;
end:
    do
    :: atomic { deaths < DD && up[w] && phase != OVER -> up[w] = 0; deaths++; break }
    :: atomic { phase == OVER -> break }
    od
}

/* The copies of a new layout: the next worker that is left. What has owner and holder as before goes on. */
inline place()
{
    each(l)
        h = (owner[l] + 1) % W;
        if :: !up[h] -> h = (h + 1) % W :: else fi;
        if :: h == owner[l] || !up[h] -> h = NONE :: else fi;
        if
        :: h == holder[l] && h != NONE && to[l] == NONE -> coming[l] = 0; there[l] = copied[l]
        :: else -> whole[l] = 0; coming[l] = 0
        fi;
        holder[l] = h; was_whole[l] = whole[l]; to[l] = NONE; came[l] = 0;
    end_each(l)
}

/* Those who are left: the step that they go on from; who is behind does it. lost: a layer is nowhere whole at that step. */
inline agree()
{
    k = 0; lost = 0;
    each(w)
        if :: up[w] && did[w] > k -> k = did[w] :: else fi;
        if :: up[w] && heard[w] > k -> k = heard[w] :: else fi;
    end_each(w);
    each(w)
        assert(!up[w] || did[w] == k || did[w] + 1 == k && given[w] >= k); /* it is at one of two boundaries */
    end_each(w);
    each(l)
        if
        :: lives(owner[l]) || has_copy(l, k) || came[l] && lives(to[l]) -> skip
        :: else -> lost = 1; assert(!(lives(holder[l]) && was_whole[l])) /* a whole copy is at hand, and of no use */
        fi;
    end_each(l);
    each(l)
        if
        :: !lost && has_copy(l, k) -> copied[l] = k
        :: !lost && !has_copy(l, k) -> whole[l] = 0
        :: else
        fi;
    end_each(l);
    each(w)
#ifdef M4 /* whoever is behind stays behind */
        skip;
#else
        if :: up[w] -> did[w] = k :: else fi;
#endif
    end_each(w)
}

/* A hand-over of a layer to its copy: all stand between two steps, and either all do it or nobody. */
active proctype HandOver()
{
    byte l, h, moved;
end:
    do
    :: atomic { phase == TRAIN && n_moves < MM && !one_dead && is_between(0) && is_between(1) && is_between(2) &&
        (may_move(0) || may_move(1) || may_move(2)) ->
        if :: may_move(0) -> moved = 0 :: may_move(1) -> moved = 1 :: may_move(2) -> moved = 2 fi;
        n_moves++;
        phase = SWITCH;
#ifdef M6 /* a copy is no copy before the decision */
        whole[moved] = 0
#endif
        }
    :: atomic { phase == SWITCH && !one_dead && !is_lent -> /* votes; a worker that needs room for others lets go of copies */
        is_lent = 1;
        each(l)
            if
#ifdef M7 /* it lets go of the one that comes to it, too */
            :: holder[l] == holder[moved] -> whole[l] = 0; was_whole[l] = 0
#else
            :: l != moved && holder[l] == holder[moved] -> whole[l] = 0; was_whole[l] = 0
#endif
            :: skip
            fi;
        end_each(l) }
    :: atomic { phase == SWITCH && !one_dead && is_lent ->
        is_lent = 0;
#ifdef M6
        whole[moved] = was_whole[moved];
#endif
        if
        :: assert(whole[moved] && copied[moved] == did[holder[moved]]); owner[moved] = holder[moved]
        :: skip /* aborted */
        fi;
        moved = 0;
        place();
        phase = TRAIN }
    :: atomic { is_lent && phase != SWITCH -> is_lent = 0; moved = 0 } /* overtaken by a loss */
    od
}

active proctype Rescue()
{
    byte k, w, l, h;
    bool lost;

    atomic { each(l) owner[l] = l; holder[l] = (l + 1) % W; to[l] = NONE; whole[l] = 1; was_whole[l] = 1; end_each(l); phase = TRAIN }
end:
    do
    :: atomic { phase != OVER && one_dead && (up[0] || up[1] || up[2]) ->
        agree();
        if
        :: lost -> phase = OVER
        :: else ->
            phase = MOVE;
            each(w) member[w] = up[w]; end_each(w);
            each(l)
                if
                :: lives(owner[l]) -> to[l] = NONE
                :: !lives(owner[l]) && !(came[l] && lives(to[l])) ->
                    came[l] = 0;
                    if :: up[0] -> to[l] = 0 :: up[1] -> to[l] = 1 :: up[2] -> to[l] = 2 fi
                :: else
                fi;
            end_each(l)
        fi }
    :: atomic { phase == MOVE && !one_dead && (to[0] == NONE || came[0]) && (to[1] == NONE || came[1]) && (to[2] == NONE || came[2]) ->
        /* all have said that their stage is there */
        each(w) if :: up[w] -> assert(did[w] == k); grads[w] = k; given[w] = k; heard[w] = k; sent[w] = k :: else fi; end_each(w);
        each(l)
            if :: to[l] != NONE -> owner[l] = to[l] :: else fi;
        end_each(l);
        place();
        ordered = k;
        leader = (up[0] -> 0 : (up[1] -> 1 : 2));
        phase = TRAIN }
    :: timeout -> break
    od;
    /* Nothing is left to do: the run is at its end, or went back to the checkpoint, or nobody is left. */
    if
    :: phase == OVER || !up[0] && !up[1] && !up[2]
    :: else ->
        assert(phase == TRAIN && (!up[0] || did[0] == S) && (!up[1] || did[1] == S) && (!up[2] || did[2] == S));
        assert(up[owner[0]] && up[owner[1]] && up[owner[2]])
    fi
}
