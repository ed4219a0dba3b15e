/* SPDX-License-Identifier: BSD-3-Clause */
/* handover.pml - one hand-over and the release of the source's slot, as doc/protocol.md says it and
 * daemon/coord*.c does it: C decides, S gives its layer to D, W takes part without moving anything,
 * then S's node is drained, proved empty and given back. Checked by handover_check.t.
 *
 * Network: the set of messages ever sent. Receiving does not take a message away and may happen at any
 * time, so loss until repeated, duplication and reordering are all covered. Variables that begin with
 * j are records of C's journal and survive its crashes, as does the node daemon's fence; slurmctld
 * saves late and forgets what it had not saved. Those with c are C's memory. An append of COMMIT may leave
 * the record absent, which is an abort, or in doubt: on the disk or not. Then C tells nobody anything until
 * it has written the journal anew without it, or a restart has found out. ABORT needs no record: a restart
 * makes the same of an INTENT without a COMMIT.
 *
 * A worker that crashes ends the step (PMIx), so the ownership of layers is not claimed after that;
 * that nothing runs on a slot given away is. Foreign starts on S's node may come at any time.
 *
 * Bounds: CC crashes of C, CM of slurmctld, CW of workers. -DM1 ... -DM14 are wrong protocols, each of
 * which breaks at least one property; without them none breaks.
 */
#ifndef CC
#define CC 2
#endif
#ifndef CM
#define CM 1
#endif
#ifndef CW
#define CW 1
#endif
mtype = { OWN, DOUBT, RETIRED, EMPTY, SHADOW, OLD, NEW };

bool jI, jC, jD, jDr, jG, jRI, jRel;      /* INTENT COMMIT DONE DRAIN GONE RELINTENT RELEASED */
bool cMine;                               /* undecided, and INTENT is of this life of C */
bool cOk;                                 /* the append of COMMIT was confirmed, or found by a restart */
bool cDoubt;                              /* the append of COMMIT failed, and nobody knows how */
bool cAb;                                 /* aborted */
bool fence;                               /* node daemon's journal: nothing of the run starts here again */
bool aD = 1, a = 1, oD = 0, o = 0;        /* slurmctld: node is ours, another job is on it; D: saved */
bool mPrep, mYesS, mYesD, mYesW, mNo, mCom, mAb, mAckS, mAckD, mAckW, mFin, mStop, mGone, mUpd, mUpdOk;
mtype sSt = OWN, dSt = EMPTY, wSt = OLD;
bool sProc = 1, sKid = 1;                 /* the source's process, and a child that escaped from it */
bool sCopy = 1, dCopy = 0;                /* holds a verified copy of the layer */
bool sCom, sAbo, dCom, dAbo, wCom, wAbo;  /* outcome that each worker has acted on */
bool wcrash, badstart, once;
byte nC, nM, nW;

#define sUse (sProc && sSt == OWN)
#define dUse (dSt == OWN)
#ifdef M12 /* W's vote is not waited for */
#define votes (mYesS && mYesD)
#else
#define votes (mYesS && mYesD && mYesW)
#endif

active proctype Coord()
{
recover:                                  /* a COMMIT that a restart finds is durable and stands */
  if
  :: atomic { jC -> cOk = 1 }
#ifdef M14 /* a restart goes on with a hand-over that it finds undecided */
  :: atomic { jI && !jC -> cMine = 1 }
#else
  :: atomic { jI && !jC -> cAb = 1 }
#endif
  :: else -> skip
  fi;
  do
  :: atomic { !jI -> jI = 1; cMine = 1 }
  :: atomic { cMine && !mPrep -> mPrep = 1 }
#ifdef M1 /* COMMIT is told before it is durable */
  :: atomic { cMine && votes && !mCom -> mCom = 1 }
  :: atomic { cMine && mCom -> cMine = 0; jC = 1; cOk = 1 }
#else
  :: atomic { cMine && votes -> cMine = 0; jC = 1; cOk = 1 }
#endif
  :: atomic { cMine && votes -> cMine = 0; cDoubt = 1; jC = 1 } /* not confirmed, on the disk */
  :: atomic { cMine && votes -> cMine = 0; cDoubt = 1 }         /* not confirmed, not on the disk */
  :: atomic { cMine -> cMine = 0; cAb = 1 }                     /* NO, timeout, lost voter, COMMIT absent */
#ifdef M13 /* a COMMIT in doubt is taken for absent */
  :: atomic { cDoubt -> cDoubt = 0; cAb = 1 }
#else
  :: atomic { cDoubt -> cDoubt = 0; jC = 0; cAb = 1 }           /* the journal is written anew, durably */
#endif
#ifdef M9 /* an append that failed is taken for done */
  :: atomic { cDoubt && !mCom -> mCom = 1 }
#endif
  :: atomic { cOk && !mCom -> mCom = 1 }
  :: atomic { cAb && !mAb -> mAb = 1 }
  :: atomic { cOk && !jD && mAckS && mAckD && mAckW -> jD = 1 }
  :: atomic { jD && !mFin -> mFin = 1 }
  :: atomic { jD && !jDr -> jDr = 1 }
  :: atomic { jDr && !mStop -> mStop = 1 }
#ifdef M2 /* asked to stop is taken for gone */
  :: atomic { mStop && !jG -> jG = 1 }
#else
  :: atomic { mGone && jDr && !jG -> jG = 1 }
#endif
  :: atomic { jG && !jRI -> jRI = 1 }
#ifdef M11 /* asked once, never again */
  :: atomic { jRI && a && !jRel && !once -> once = 1; mUpd = 1; mUpdOk = 0 }
#else
  :: atomic { jRI && a && !jRel && !mUpd -> mUpd = 1; mUpdOk = 0 }
#endif
#ifdef M4 /* the answer is taken for the deed */
  :: atomic { jRI && mUpdOk && !jRel -> jRel = 1 }
#else
  :: atomic { jRI && !a && !aD && !jRel -> jRel = 1 } /* two reads, further apart than Slurm saves */
#endif
  :: atomic { nC < CC -> nC++; cMine = 0; cOk = 0; cDoubt = 0; cAb = 0; goto recover }
  :: jRel || (mAb && mAckS && mAckD && mAckW) -> break
  od
}

active proctype Src()
{
  do
  :: atomic { sProc && sSt == OWN && mPrep && !mYesS && !mNo && !sAbo && !mAb -> sSt = DOUBT; mYesS = 1 }
  :: atomic { sProc && sSt == OWN && mPrep && !mYesS && !mNo -> mNo = 1 }
  :: atomic { sProc && sSt == DOUBT && mCom -> sSt = RETIRED; sCom = 1; mAckS = 1 }
  :: atomic { sProc && sSt == DOUBT && mAb -> sSt = OWN; sAbo = 1; mAckS = 1 }
  :: atomic { sProc && sSt == OWN && mAb && !mAckS -> sAbo = 1; mAckS = 1 }
#ifdef M5 /* whoever is in doubt goes on after a while */
  :: atomic { sProc && sSt == DOUBT && !mCom && !mAb -> sSt = OWN }
#endif
#ifdef M7 /* the source frees its copy when it votes */
  :: atomic { sProc && sSt == DOUBT && sCopy -> sCopy = 0 }
#endif
  :: atomic { sProc && sSt == RETIRED && mFin -> sCopy = 0; sProc = 0 } /* leaves; a child may stay */
  :: atomic { sProc && nW < CW -> nW++; sProc = 0; sCopy = 0; wcrash = 1 }
  :: !sProc && !sKid && fence -> break
  :: sAbo -> break
  od
}

active proctype Dst()
{
  do
  :: atomic { dSt == EMPTY && mPrep && mYesS && !mAb && !mYesD && !mNo && sCopy -> dSt = SHADOW; dCopy = 1; mYesD = 1 }
  :: atomic { dSt == EMPTY && mPrep && !mYesD && !mNo -> mNo = 1 } /* no memory, bad checksum */
  :: atomic { dSt == SHADOW && mCom -> dSt = OWN; dCom = 1; mAckD = 1 }
  :: atomic { dSt != OWN && mAb && !dAbo -> dSt = EMPTY; dCopy = 0; dAbo = 1; mAckD = 1 }
#ifdef M8 /* the destination goes on at its own vote */
  :: atomic { dSt == SHADOW -> dSt = OWN }
#endif
  :: dCom || dAbo -> break
  od
}

active proctype Other()
{
  do
  :: atomic { wSt == OLD && mPrep && !mYesW && !mNo && !wAbo -> wSt = DOUBT; mYesW = 1 }
  :: atomic { wSt == OLD && mPrep && !mYesW && !wAbo -> wAbo = 1; mNo = 1 } /* gives up alone before it votes */
  :: atomic { wSt == DOUBT && mCom -> wSt = NEW; wCom = 1; mAckW = 1 }
  :: atomic { wSt != NEW && mAb && !mAckW -> wSt = OLD; wAbo = 1; mAckW = 1 }
  :: wCom || mAckW -> break
  od
}

active proctype Node()                    /* daemon of S's node: the only one who may say GONE */
{
  do
  :: atomic { mStop && sProc -> sProc = 0; sCopy = 0 }
  :: atomic { mStop && sKid -> sKid = 0 }
#ifdef M3 /* the proof looks at the worker alone */
  :: atomic { mStop && !sProc && !mGone -> fence = 1; mGone = 1 }
#else
  :: atomic { mStop && !sProc && !sKid && !mGone -> fence = 1; mGone = 1 }
#endif
  /* a new process of the run: refused by the fence, or by C once the slot is drained */
#ifdef M6
  :: atomic { !sProc && jRI && !badstart -> sProc = 1; sSt = RETIRED; badstart = 1 }
#else
#ifdef M10 /* C admits to a drained slot, and no fence is kept */
  :: atomic { !sProc && jDr && nW < CW -> nW++; sProc = 1; sSt = RETIRED; badstart = badstart || jRI }
#else
  :: atomic { !sProc && !fence && !jDr && wcrash && !sKid -> sKid = 1 } /* before: allowed, and found by the proof */
#endif
#endif
  :: mGone && (jRel || nM == CM) -> break
  :: sAbo -> break
  od
}

active proctype Slurm()
{
  do
  :: atomic { mUpd && a -> a = 0; mUpd = 0; mUpdOk = 1 }   /* acknowledged, not yet saved */
  :: atomic { (a != aD || o != oD) -> aD = a; oD = o }     /* saved, up to 5 s later */
  :: atomic { !a && !o -> o = 1 }                          /* the next job starts there */
  :: atomic { nM < CM -> nM++; a = aD; o = oD }            /* crash: back to what was saved */
  :: jRel && o && oD && !aD && nM == CM -> break
  :: mAb && mAckS -> break
  od
}

ltl own1   { [] !(sUse && dUse && !wcrash) }                                      /* one owner */
ltl atom   { [] !((sCom || dCom || wCom) && (sAbo || dAbo || wAbo)) }             /* one outcome */
ltl copy   { [] (sCopy || dCopy || wcrash) }                                      /* never lost */
ltl fenced { [] (!a -> (!sProc && !sKid)) }                                       /* free means empty */
ltl other  { [] !(o && (sProc || sKid)) }                                         /* not beside the next job */
ltl nouse  { [] !badstart }                                                       /* no start after the intent */
ltl relst  { [] (jRel -> [] !a) }                                                 /* released stays released */
ltl wal    { [] ((mCom -> jC) && (mAb -> !jC)) }                                  /* the disk agrees with what was told */
ltl live   { <> ((mAb && mAckS && mAckD && mAckW) || jRel || wcrash) }            /* everything ends */
