/* SPDX-License-Identifier: BSD-3-Clause */
/* layouts.pml - who is in the run, and who leads it: hand-overs in which workers leave and newcomers join, one after the other
 * and unfinished ones, lost workers and REGROUP, and the coordinator C, which crashes, as doc/protocol.md and daemon/coord/ have
 * them. What becomes of a slot that was left is in handover.pml. Checked by handover_check.t.
 *
 * A run has three seats. A layout is the set of seats that are in it: its lowest rank leads, its highest has the layer that is
 * watched. A worker enters a step (its part is on the way to the leader then), the leader has all parts and gives the order: go on,
 * or hand-over m. Who is ordered to hand over votes yes and is in doubt, or refuses and trains on; a newcomer is told the order by
 * the leader of the old layout. C counts votes of one boundary, journals COMMIT, and tells it; or ABORT, for whatever reason, at
 * any time. A regroup begins again at the newest checkpoint, step 0. Step B is where this model ends.
 *
 * Networks: what C says is a set of messages, heard at any time, or never: each crash of C may lose them all. So C has to say
 * again what it decided, to all or to who asks. Parts and orders of workers stay until they are taken. What says that a process
 * has ended C hears at any time. An append of COMMIT may fail and leave the record on the disk or not.
 *
 * Variables that begin with j, lay, epo, born and who are records of C's journal; c is what it does, m the sets of its messages.
 *
 * Left out: the workers' poll before they vote. With it fewer of them vote yes, and nothing else differs. Nor is it modelled that a
 * worker which refused m never says yes to it later: here it may, and the votes' boundaries keep that from doing harm.
 *
 * Everything is bounded, so nothing goes on for ever, and each search ends where nothing can happen any more. There all must
 * be well (is_at_rest): the decision is known, each process of the layout in force has trained to the end, leavers have left,
 * newcomers wait. Faults are drawn before the run, so that none is due to mend what was stuck.
 *
 * C may also be lost with its journal, and another one be made of what the workers that are left have heard (take_over.c), once. Who
 * has joined no layout yet has no part in that. (Where a second one is lost, too, and only those that died have heard of it, a third may
 * use an epoch again; messages name who sent them, and those that had it are in no layout any more. Here they have no sender.)
 *
 * Bounds: CH hand-overs, CN newcomers, CD deaths, CC crashes of C, CJ appends in doubt, CT losses of C. -DM1 ... are wrong protocols, each of
 * which breaks a property; without them none breaks. -DKEEP: see forget().
 */
#ifndef CH
#define CH 2
#endif
#ifndef CN
#define CN 1
#endif
#ifndef CD
#define CD 1
#endif
#ifndef CC
#define CC 1
#endif
#ifndef CJ
#define CJ 0
#endif
#ifndef B
#define B 2
#endif
#ifndef CT
#define CT 0
#endif
#define IDS (CH + CD + CT + 1) /* of layouts: 0 is the first one; at most 5 */
#define NOID IDS          /* no layout is in force at this worker */
#define GO 15             /* an order without a hand-over */

mtype = { NONE, NEW, TRAIN, DOUBT, LEAVE, LEFT, DEAD }; /* a seat's process; NEW waits to be taken in */
mtype = { IDLE, PREPARING, UNSURE, TELLING };           /* what C does; UNSURE: is COMMIT on the disk? */

mtype pc[3];
byte life[3];                     /* which process it is of those that had the seat */
byte in[3], st[3], mg[3];         /* id of the layout in force there, step, hand-over in doubt */
byte lock;                        /* rank + 1 of who has log and checkpoints */
short part[3];                    /* parts that were sent and not taken, by epoch and step */
short own;                        /* epochs and steps in which somebody trained the layer */
byte oe, os, om;                  /* the newest order: epoch and step, what */

byte lay[6], epo[6], born[6];     /* by id: layout, its epoch, the processes that join by it */
byte jn, jin, jbefore, jreg;      /* ids: newest, in force, in force before, newest regroup */
byte jc;                          /* decided, the record is on the disk */
bool jdone, jhid;                 /* the newest decision is known to all; a COMMIT is on the disk that C does not know of */
byte who[3];                      /* the process that each seat of the layout in force belongs to */
mtype cs;
byte mP, mC, mA, mR, mF;          /* PREPARE, COMMIT, ABORT, REGROUP, FINISH */
byte yes[B];                      /* who has voted for the newest hand-over, by boundary */
byte nH, nN, nD, nC, nJ, nT;      /* what is still to come of CH, CN ... */
hidden byte m, k;

#define bit(i) (1 << (i))
#define has(set, i) (((set) >> (i)) & 1)
#define low(set) (has(set, 0) -> 0 : (has(set, 1) -> 1 : 2))
#define high(set) (has(set, 2) -> 2 : (has(set, 1) -> 1 : 0))
#define each(f) (f(0) && f(1) && f(2))
#define any(f) (f(0) || f(1) || f(2))
#define set_of(f) ((f(0)) | (f(1)) << 1 | (f(2)) << 2)
#define any_id(f) (f(1) || f(2) || f(3) || f(4))
#define id_of(f) if :: f(1) -> m = 1 :: f(2) -> m = 2 :: f(3) -> m = 3 :: f(4) -> m = 4 fi
#define at(e, s) (((e) - 1) * B + (s))
#define steps_of(e) (((1 << B) - 1) << (((e) - 1) * B))

#define is_over(q) (pc[q] == NONE || pc[q] == LEFT || pc[q] == DEAD)
#define is_new(q) (pc[q] == NEW)
#define is_doubtful(q) (pc[q] == DOUBT)
#define is_leaving(q) (pc[q] == LEAVE)
#define is_up(q) (pc[q] == TRAIN || pc[q] == DOUBT)
#define trains(q) (pc[q] == TRAIN && st[q] < B)

/* --- workers --- */

inline enter(r, s)
{
  st[r] = s; /* s may be of st[r] */
  if
  :: st[r] < B ->
     assert(has(jc, in[r]) && has(lay[in[r]], r)); /* only who is in a layout that was decided trains */
     part[r] = part[r] | bit(at(epo[in[r]], st[r]));
     if
     :: r == high(lay[in[r]]) ->
        assert(!has(own, at(epo[in[r]], st[r]))); /* one owner */
        own = own | bit(at(epo[in[r]], st[r]))
     :: else
     fi
  :: else
  fi
}

inline release(r)
{
  if
  :: lock == r + 1 -> lock = 0
  :: else
  fi
}

/* Where it leads: take log and checkpoints. Nobody waits for who led before. */
inline lead(r)
{
  if
  :: r == low(lay[in[r]]) && lock != r + 1 -> assert(lock == 0); lock = r + 1
  :: else
  fi
}

/* Forget what nobody can hear, take or ask for any more, so that states are alike which differ in nothing else. */
#define may_hear(i, q) (is_up(q) && ((in[q] == NOID) -> i > mg[q] : epo[i] > epo[in[q]]))
#define may_hear_it(q) may_hear(k, q)
#define may_obey(q) (is_up(q) && in[q] != NOID && epo[k] > epo[in[q]])
#define refers(q) (in[q] == k || mg[q] == k)
#define is_past(q) (!is_up(q) || in[q] == NOID || epo[in[q]] > k)
inline forget()
{
  if
  :: !any(is_doubtful) -> mC = 0; mA = 0
  :: else
  fi;
  if
  :: !any(is_leaving) -> mF = 0
  :: else
  fi;
#ifndef KEEP
  k = 0;
  do
  :: k < IDS ->
     if
     :: !any(may_hear_it) -> mR = mR & ~bit(k)
     :: else
     fi;
     if
     :: !any(may_obey) -> mP = mP & ~bit(k)
     :: else
     fi;
     if
     :: k != jn && k != jin && k != jbefore && k != jreg && k != om && !has(mP | mR, k) && !any(refers) ->
        lay[k] = 0; epo[k] = 0; born[k] = 0; jc = jc & ~bit(k)
     :: else
     fi;
     k++
  :: else -> break
  od;
  k = 1;
  do
  :: k <= IDS && each(is_past) ->
     part[0] = part[0] & ~steps_of(k); part[1] = part[1] & ~steps_of(k); part[2] = part[2] & ~steps_of(k);
     own = own & ~steps_of(k);
     k++
  :: else -> break
  od;
  k = 0
#endif
}

inline end(r, how)
{
  release(r);
  pc[r] = how; in[r] = NOID; mg[r] = 0; st[r] = 0;
  forget()
}

/* Log and checkpoints are free before the vote: the next leader may hear of the COMMIT long before this worker does. */
inline vote(r)
{
  if
#ifdef M27 /* a vote counts, whatever it is for */
  :: cs == PREPARING -> yes[st[r]] = yes[st[r]] | bit(r)
#else
  :: m == jn && cs == PREPARING -> yes[st[r]] = yes[st[r]] | bit(r)
#endif
  :: else
  fi;
  mg[r] = m;
#ifdef M1 /* a newcomer trains when it has voted */
  if
  :: in[r] == NOID -> pc[r] = TRAIN; in[r] = m; enter(r, st[r] + 1)
  :: else -> pc[r] = DOUBT
  fi;
#else
  pc[r] = DOUBT;
#endif
  if
#ifdef M2 /* who leads keeps them until it hears the decision */
  :: false
#else
#ifdef M3 /* who leads lets go of them only when it leaves: a newcomer may lead, too */
  :: !has(lay[m], r) -> release(r)
#else
  :: r != low(lay[m]) -> release(r)
#endif
#endif
  :: else
  fi
}

#define is_behind(q) (pc[q] == TRAIN && epo[in[q]] < epo[m])
inline commit(r)
{
  m = mg[r];
  assert(has(jc, m) && !any(is_behind)); /* durable; and nobody trains in the layout before */
  in[r] = m; mg[r] = 0;
  if
  :: has(lay[m], r) -> pc[r] = TRAIN; lead(r); enter(r, st[r] + 1)
  :: else -> pc[r] = LEAVE; st[r] = 0
  fi;
  forget()
}

inline abort(r)
{
  assert(!has(jc, mg[r]));
  mg[r] = 0;
  if
  :: in[r] == NOID -> pc[r] = NEW; st[r] = 0
  :: else -> pc[r] = TRAIN; lead(r); enter(r, st[r] + 1)
  fi;
  forget()
}

/* A newcomer in doubt drops what it has, unless its hand-over was committed before: then it is one of those who go on. */
inline regroup(r)
{
  assert(has(jc, m));
  if
#ifdef M4 /* a newcomer drops what it has at any REGROUP */
  :: in[r] == NOID -> pc[r] = NEW; mg[r] = 0; st[r] = 0
  :: in[r] != NOID && has(lay[m], r) -> pc[r] = TRAIN; in[r] = m; mg[r] = 0; lead(r); enter(r, 0)
#else
  :: has(lay[m], r) -> pc[r] = TRAIN; in[r] = m; mg[r] = 0; lead(r); enter(r, 0)
  :: !has(lay[m], r) && in[r] == NOID -> pc[r] = NEW; mg[r] = 0; st[r] = 0
#endif
  :: else -> end(r, LEFT)
  fi;
  forget()
}

#ifdef M5 /* the lowest of those that live leads, not the lowest of the layout */
#define is_there(q) (has(lay[in[r]], q) && !is_over(q))
#define leads (r == low(set_of(is_there)))
#else
#ifdef M6 /* who led the first layout leads always */
#define leads (r == low(lay[0]))
#else
#define leads (r == low(lay[in[r]]))
#endif
#endif
#ifdef M7 /* no epoch in the tags of parts */
#define has_part(q) (!has(lay[in[r]], q) || (part[q] & (bit(at(1, st[r])) | bit(at(2, st[r])) | bit(at(3, st[r])) | bit(at(4, st[r])))))
#else
#define has_part(q) (!has(lay[in[r]], q) || has(part[q], at(epo[in[r]], st[r])))
#endif
#define may_order (trains(r) && leads && !(oe == epo[in[r]] && os == st[r]) && each(has_part))
#ifdef M8 /* no epoch in the tags of orders */
#define has_order (trains(r) && om && os == st[r])
#else
#define has_order (trains(r) && os == st[r] && oe == epo[in[r]])
#endif
#ifdef M9 /* PREPARE for another epoch is obeyed */
#define is_prepared(i) has(mP, i)
#define may_say_yes has(mP, om)
#else
#define is_prepared(i) (has(mP, i) && epo[i] > epo[in[r]])
#define may_say_yes (has(mP, om) && epo[om] == epo[in[r]] + 1)
#endif
#define joins_by(i) (((born[i] >> (2 * r)) & 3) == life[r])
#define is_asked_to_join (pc[r] == NEW && om && om != GO && has(mP, om) && has(lay[om], r) && joins_by(om))
#ifdef M10 /* a newcomer in doubt takes a REGROUP from before its hand-over for the end of that */
#define hears_regroup(i) (has(mR, i) && is_up(r) && ((in[r] == NOID) || epo[i] > epo[in[r]]))
#else
#ifdef M11 /* a REGROUP that comes late puts an older layout in force */
#define hears_regroup(i) (has(mR, i) && is_up(r) && ((in[r] == NOID) -> i > mg[r] : i != in[r]))
#else
#ifdef M12 /* who is in doubt waits for the decision, whatever it hears */
#define hears_regroup(i) (has(mR, i) && pc[r] == TRAIN && epo[i] > epo[in[r]])
#else
#define hears_regroup(i) (has(mR, i) && may_hear(i, r))
#endif
#endif
#endif
#define may_finish(i) (i >= in[r] && has(mF, i))

/* One leader for each epoch, one order for each step, and no step behind one of a later epoch. */
inline give(r, what)
{
  assert(r == low(lay[in[r]]) && (epo[in[r]] > oe || epo[in[r]] == oe && st[r] > os));
  assert(has(own, at(epo[in[r]], st[r]))); /* and the layer was trained */
  oe = epo[in[r]]; os = st[r]; om = what;
  part[0] = part[0] & ~bit(at(oe, os)); part[1] = part[1] & ~bit(at(oe, os)); part[2] = part[2] & ~bit(at(oe, os))
}

/* Who waits for the order takes it at once: when it does changes nothing, its next part may be late. */
inline go_on(q)
{
  if
  :: trains(q) && epo[in[q]] == oe && st[q] == os && has(lay[in[r]], q) -> enter(q, st[q] + 1)
  :: else
  fi
}

proctype Worker(byte r)
{
end_worker:
  do
  :: d_step { may_order -> give(r, GO); go_on(0); go_on(1); go_on(2) }
  :: atomic { may_order && any_id(is_prepared) -> id_of(is_prepared); give(r, m); m = 0 }
  :: d_step { has_order && om == GO -> assert(oe == epo[in[r]]); enter(r, st[r] + 1) }
  :: d_step { has_order && om != GO -> assert(oe == epo[in[r]]); enter(r, st[r] + 1) } /* refuses */
  :: d_step { has_order && om != GO && may_say_yes -> assert(oe == epo[in[r]]); m = om; vote(r); m = 0 }
  :: d_step { is_asked_to_join -> st[r] = os; m = om; vote(r); m = 0 }
  :: d_step { pc[r] == DOUBT && has(mC, mg[r]) -> commit(r); m = 0 }
  :: d_step { pc[r] == DOUBT && has(mA, mg[r]) -> abort(r) }
  :: atomic { any_id(hears_regroup) -> id_of(hears_regroup); regroup(r); m = 0 }
  :: d_step { pc[r] == LEAVE && any_id(may_finish) -> end(r, LEFT) }
  :: d_step { nD && !is_over(r) -> nD--; end(r, DEAD) }
  :: d_step { nN && is_over(r) && life[r] < 3 -> nN--; life[r]++; pc[r] = NEW } /* in whatever seat is empty */
  od
}

/* --- the coordinator --- */

#define ended(q) (life[q] != who[q] || is_over(q)) /* the process that the seat belongs to, whoever sits there now */
#ifdef M13 /* whoever sits in the seat is taken for the one that it belongs to */
#define is_lost(q) (has(lay[jin], q) && is_over(q))
#else
#ifdef M14 /* the end of the seat's former process is taken for that of the one that it belongs to */
#define is_lost(q) (has(lay[jin], q) && (ended(q) || life[q] > 1))
#else
#ifdef M15 /* nobody looks whether newcomers live */
#define is_lost(q) (has(lay[jin], q) && ended(q) && has(lay[0], q) && who[q] == 1)
#else
#define is_lost(q) (has(lay[jin], q) && ended(q))
#endif
#endif
#endif
#define losses set_of(is_lost)
#define can_become(i) (i != lay[jin] && (i & ~lay[jin] & ~set_of(is_new)) == 0)
#define can_change (can_become(1) || can_become(2) || can_become(3) || can_become(4) || can_become(5) || can_become(6) || \
                    can_become(7))
#ifdef M16 /* PREPARE goes to whoever sits in the seat */
#define joins(q) life[q]
#else
#define joins(q) (has(k & ~lay[jin], q) * life[q])
#endif
#define has_died(q) (has(lay[jn] & ~lay[jin], q) && is_over(q))
#define members (jn == jreg -> lay[jn] : lay[jbefore] | lay[jn]) /* who leaves by a regroup is not waited for */
#ifdef M17 /* DONE is journalled when the first has acknowledged; the restarted daemon then refuses those who are behind */
#define has_heard(q) (in[q] == jin)
#define all_know any(has_heard)
#else
#define knows(q) (!has(members, q) || ended(q) || in[q] == jin)
#define all_know each(knows)
#endif
#ifdef M18 /* newcomers' votes are not waited for */
#define voters lay[jin]
#else
#define voters (lay[jin] | lay[jn])
#endif
#define all_yes(s) ((voters & ~yes[s]) == 0)
#ifdef M19 /* boundaries are not compared */
#define is_agreed ((voters & ~(yes[0] | yes[1] | yes[B - 1])) == 0)
#else
#define is_agreed (all_yes(0) || all_yes(1) || all_yes(B - 1))
#endif
#define still_trains(q) (trains(q) && in[q] == jin)
#ifdef M28 /* the next hand-over begins before all know of this one */
#define is_ready (cs == IDLE || cs == TELLING)
#else
#define is_ready (cs == IDLE)
#endif
#define waits_to_leave(q) (pc[q] == LEAVE && !(mF >> in[q]))

/* Whoever comes back is let in with what the journal can explain, and asks about what it is in doubt of (check_epoch() and
 * coord_migrate_tell() of daemon/coord). */
#define is_older(q) (epo[in[q]] < epo[jin])
#define is_admitted(q) (in[q] == NOID || epo[in[q]] == epo[jin] || is_older(q) && (cs == TELLING && jn == jreg || \
                        jreg && !has(lay[jin], q) || cs == TELLING && mg[q] == jn && epo[in[q]] + 1 == epo[jin]))
#define is_undecided(i) (i == jn && (cs == PREPARING || cs == UNSURE))
#define asks(q) (pc[q] == DOUBT && !is_undecided(mg[q]) && is_admitted(q))
#define is_to_regroup(q) (asks(q) && mg[q] <= jreg || pc[q] == TRAIN && jreg && is_older(q) && is_admitted(q))
#ifdef M20 /* behind its DONE a regroup is forgotten */
#define asks_regroup(q) (cs == TELLING && jn == jreg && is_to_regroup(q))
#else
#define asks_regroup(q) is_to_regroup(q)
#endif
#define asks_commit(q) (asks(q) && mg[q] > jreg && mg[q] == jin && !has(mC, jin))
#ifdef M21 /* what is older than the layout in force nobody can be in doubt about: but a newcomer had no vote in that */
#define is_aborted(q) (mg[q] > jin)
#else
#define is_aborted(q) (mg[q] > jin || mg[q] != jin && in[q] == NOID)
#endif
#define asks_abort(q) (asks(q) && mg[q] > jreg && is_aborted(q) && !has(mA, mg[q]))
#define waits_for_regroup(q) may_hear(jreg, q)

inline begin(next)
{
  jn++; lay[jn] = next; epo[jn] = epo[jin] + 1
}

inline take(q)
{
  if
  :: has(lay[jn] & ~lay[jbefore], q) -> who[q] = (born[jn] >> (2 * q)) & 3
  :: else
  fi
}

inline no_votes()
{
  yes[0] = 0; yes[1] = 0; yes[B - 1] = 0
}

#ifdef M34 /* whoever lives is in it, also who was to leave, and would lead again without having heard so */
#define survives(q) (is_up(q) && in[q] != NOID)
#else
#define survives(q) (is_up(q) && in[q] != NOID && q >= low(lay[jin]))
#endif
#define may_tell(q) (is_up(q) && in[q] != NOID)
#define has_heard_of(q) (!is_over(q) && in[q] != NOID)
#define survivors set_of(survives)
#ifdef M29 /* the layout of the lowest rank that is left counts, not the newest that anybody has heard of */
#define is_newest(q) (has_heard_of(q) && (q == 0 || !has_heard_of(0)) && (q != 2 || !has_heard_of(1)))
#else
#define is_newest(q) (has_heard_of(q) && (!has_heard_of(0) || epo[in[0]] <= epo[in[q]]) && \
                      (!has_heard_of(1) || epo[in[1]] <= epo[in[q]]) && (!has_heard_of(2) || epo[in[2]] <= epo[in[q]]))
#endif

/* Another C knows what workers say: the newest layout in force anywhere. Whatever was under way, decided or not, a REGROUP ends. */
inline take_over()
{
  if
  :: is_newest(0) -> m = in[0]
  :: is_newest(1) -> m = in[1]
  :: is_newest(2) -> m = in[2]
  fi;
#ifndef M30 /* what C said before it was lost is still heard: nobody looks who says it */
  mP = 0; mC = 0; mA = 0; mR = 0; mF = 0;
#endif
  no_votes(); jhid = 0; jin = m;
#ifdef M31 /* it goes on with that layout, and who is in doubt is told that nothing came of it */
  cs = IDLE; jdone = 1; jbefore = jin;
  if
  :: any(is_doubtful) -> mA = mA | bit(jn)
  :: else
  fi;
#else
  k = survivors;
#ifdef M32 /* who waits to be taken in is counted as well */
  k = k | set_of(is_new);
#endif
  begin(k); born[jn] = 0; jreg = jn;
#ifndef M33 /* the next epoch: whoever has died may have had it, by a decision that nobody else has heard of */
  epo[jn] = epo[jin] + CD + 2;
#endif
  put_in_force();
  if
  :: has(k, 0) -> who[0] = life[0]
  :: else
  fi;
  if
  :: has(k, 1) -> who[1] = life[1]
  :: else
  fi;
  if
  :: has(k, 2) -> who[2] = life[2]
  :: else
  fi;
  mR = mR | bit(jn);
#endif
  m = 0; k = 0
}

/* The record is on the disk. */
inline put_in_force()
{
  assert(epo[jn] > epo[jin]);
  jbefore = jin; jin = jn; jc = jc | bit(jn); jhid = 0; jdone = 0;
  take(0); take(1); take(2);
  cs = TELLING
}

proctype Coordinator()
{
end_coordinator:
  do
  :: atomic { is_ready && nH && any(still_trains) && can_change -> /* INTENT, PREPARE */
       if
       :: can_become(1) -> k = 1
       :: can_become(2) -> k = 2
       :: can_become(3) -> k = 3
       :: can_become(4) -> k = 4
       :: can_become(5) -> k = 5
       :: can_become(6) -> k = 6
       :: can_become(7) -> k = 7
       fi;
       nH--; begin(k); born[jn] = joins(0) | joins(1) << 2 | joins(2) << 4; cs = PREPARING; mP = mP | bit(jn); k = 0
     }
#ifdef M22 /* COMMIT is told before it is journalled */
  :: d_step { cs == PREPARING && is_agreed && !has(mC, jn) -> mC = mC | bit(jn) }
#endif
  :: d_step { cs == PREPARING && is_agreed -> put_in_force(); mC = mC | bit(jn); no_votes() }
  :: d_step { cs == PREPARING && is_agreed && nJ -> nJ--; cs = UNSURE; jhid = 1; no_votes() } /* it is on the disk */
  :: d_step { cs == PREPARING && is_agreed && nJ -> nJ--; cs = UNSURE; no_votes() }           /* it is not */
#ifdef M23 /* a COMMIT in doubt is taken for absent */
  :: d_step { cs == UNSURE -> cs = IDLE; mA = mA | bit(jn); forget() }
#else
  :: d_step { cs == UNSURE -> jhid = 0; cs = IDLE; mA = mA | bit(jn); forget() } /* the journal is written anew */
#endif
#ifdef M24 /* a newcomer that died before its vote is waited for */
  :: d_step { cs == PREPARING && !any(has_died) -> cs = IDLE; mA = mA | bit(jn); no_votes(); forget() }
#else
  :: d_step { cs == PREPARING -> cs = IDLE; mA = mA | bit(jn); no_votes(); forget() } /* a no, a timeout, a lost voter */
#endif
  :: d_step { cs == TELLING && all_know -> cs = IDLE; jdone = 1; jbefore = jin; mF = mF | bit(jn); forget() } /* DONE */
#ifdef M25 /* REGROUP is told before it is journalled */
  :: d_step { cs == IDLE && losses && (lay[jin] & ~losses) && !lay[jn + 1] ->
       lay[jn + 1] = lay[jin] & ~losses; epo[jn + 1] = epo[jin] + 1; mR = mR | bit(jn + 1)
     }
#endif
  :: d_step { (cs == IDLE || cs == TELLING) && losses && (lay[jin] & ~losses) -> /* REGROUP */
       assert((!has(losses, 0) || ended(0)) && (!has(losses, 1) || ended(1)) && (!has(losses, 2) || ended(2)));
       k = lay[jin] & ~losses;
       begin(k); born[jn] = 0; jreg = jn; put_in_force(); mR = mR | bit(jn); k = 0
     }
  :: d_step { cs == TELLING && jn == jreg && !has(mR, jn) && any(waits_for_regroup) -> mR = mR | bit(jn) }
  :: d_step { cs == TELLING && jn != jreg && !has(mC, jn) && any(is_doubtful) -> mC = mC | bit(jn) }
  :: d_step { any(asks_regroup) && !has(mR, jreg) -> mR = mR | bit(jreg) }
  :: d_step { any(asks_commit) -> mC = mC | bit(jin) }
  :: d_step { asks_abort(0) -> mA = mA | bit(mg[0]) }
  :: d_step { asks_abort(1) -> mA = mA | bit(mg[1]) }
  :: d_step { asks_abort(2) -> mA = mA | bit(mg[2]) }
  :: d_step { cs != TELLING && jin && any(waits_to_leave) -> mF = mF | bit(jin) }
  :: atomic { nT && any(may_tell) -> nT--; take_over() }
  :: atomic { nC -> /* a crash, and what the restart finds: an INTENT without a COMMIT is an ABORT */
       nC--; no_votes();
#ifdef M26 /* the restart takes a REGROUP for the COMMIT of a hand-over */
       jreg = 0;
#endif
       if
       :: jhid -> put_in_force()
       :: !jhid && !jdone -> cs = TELLING
       :: !jhid && jdone -> cs = IDLE
       fi;
       if
       :: mP = 0; mC = 0; mA = 0; mR = 0; mF = 0
       :: skip
       fi
     }
  od
}

#define is_at_rest(q) (is_over(q) || pc[q] == NEW || (pc[q] == TRAIN && in[q] == jin && st[q] == B))
#define is_in_place(q) (!has(lay[jin], q) || (life[q] == who[q] && pc[q] == TRAIN))
#define has_nobody(q) (!has(lay[jin], q) || ended(q))

inline sit(r)
{
  in[r] = NOID; pc[r] = NONE;
  if
  :: has(lay[0], r) -> in[r] = 0; life[r] = 1; who[r] = 1; pc[r] = TRAIN; lead(r); enter(r, 0)
  :: else
  fi
}

init {
  atomic {
    if
    :: lay[0] = 7
    :: lay[0] = 6
    :: lay[0] = 3
    fi;
    epo[0] = 1; jc = 1; jdone = 1; cs = IDLE;
    sit(0); sit(1); sit(2);
    do :: nH < CH -> nH++ :: break od;
    do :: nN < CN -> nN++ :: break od;
    do :: nD < CD -> nD++ :: break od;
    do :: nC < CC -> nC++ :: break od;
    do :: nJ < CJ -> nJ++ :: break od;
    do :: nT < CT -> nT++ :: break od;
    run Worker(0); run Worker(1); run Worker(2); run Coordinator()
  }
  timeout -> assert(cs == IDLE); assert(each(is_at_rest)); assert(each(is_in_place) || each(has_nobody))
}
