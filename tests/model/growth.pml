/* SPDX-License-Identifier: BSD-3-Clause */
/* growth.pml - requests of a run that may grow, as doc/protocol.md says it ("Slices that are asked for") and daemon/coord/decide/grow.c,
 * daemon/run/slices/want.c, companions.c and daemon/release/ask_slices.c do it: C, in home's daemon, asks for K companions; a child of the
 * daemon looks at Slurm's list, and submits what is missing or withdraws what waits beyond what is wanted; jobs wait, begin, fail, have
 * a seat and are taken in. Checked by handover_check.t.
 *
 * Variables that begin with j are the journal and survive a crash, as do jobs, and a child, which may also die with its daemon, at any
 * moment. What C and the daemon keep in memory begins with c. A request may have waited too long at any time. An answer of Slurm's that
 * is lost, and what it takes in late, are not in here: a child that follows waits them out.
 *
 * Bounds: R requests of K companions, CC crashes of the daemon. -DM1 ... -DM9 are wrong protocols, each of which breaks an assertion.
 */
#ifndef K
#define K 2
#endif
#ifndef R
#define R 2
#endif
#ifndef CC
#define CC 2
#endif
mtype = { NONE, ASKED, JOINED, OVER };

mtype jSt = NONE;      /* of the newest request */
byte jN, jWant;        /* its number, from 1; companions that are wanted with it */
bool cUp = 1, cMust;   /* cMust: Slurm is to be asked, since something else is wanted, or it was not asked since the start */
mtype cSt = NONE;
byte cN, cWant;
bool late;             /* the newest request has waited too long */
byte nCrash;
byte waits, begun, joined;    /* jobs: in the queue; begun, without a seat; in the layout */
byte ended;            /* since the newest request was made, of those that were submitted for it */
byte n1, n2;           /* children: 0 there is none, else what they do next */
byte want1, want2, req1, req2, miss1, miss2;
bool lock, busy;

#define jobs (waits + begun + joined)
#define checked assert(jobs <= K) /* no more than were ever asked for at a time */

/* What C and its daemon know again after a crash. */
inline restart() {
#ifdef M4 /* a request that is found under way is forgotten */
    cSt = (jSt == ASKED -> NONE : jSt);
#else
    cSt = jSt;
#endif
    cN = jN;
    cWant = jWant;
#ifdef M7 /* Slurm is not asked after a restart: it was before */
    cMust = 0;
#else
    cMust = 1;
#endif
}

/* Its end: durable before fewer are wanted. Who is in the run stays. */
inline give_up() {
#ifdef M5 /* the end of a request is not journalled */
    skip;
#else
    jSt = OVER; jWant = joined;
#endif
    cSt = OVER; cWant = joined;
#ifdef M8 /* what waits is not withdrawn */
    skip
#else
    cMust = 1
#endif
}

active proctype Coord()
{
end:
    do
    :: atomic { cUp && cSt != ASKED && cN < R && joined == 0 ->
#ifdef M1 /* wanted before it is durable */
        cSt = ASKED; cN++; cWant = K; cMust = 1; late = 0; ended = 0 }
        if
        :: atomic { cUp && cSt == ASKED && cN > jN -> jSt = ASKED; jN = cN; jWant = K }
        :: atomic { !cUp -> skip }
        fi
#else
        jSt = ASKED; jN++; jWant = K; late = 0; ended = 0 }
        if
        :: atomic { cUp && jN > cN -> cSt = ASKED; cN = jN; cWant = K; cMust = 1 }
        :: atomic { !cUp -> skip } /* the next one finds it */
        :: atomic { cUp && jN == cN -> skip } /* and has found it */
        fi
#endif
    :: atomic { cUp && cSt == ASKED && joined == K -> jSt = JOINED; cSt = JOINED }
    :: atomic { cUp && cSt == ASKED && joined < K && late -> give_up() }
    :: atomic { cUp && cSt == ASKED && joined + begun + waits + ended >= K && joined + begun + waits < K && n1 == 0 && n2 == 0 && !cMust -> give_up() }
    :: atomic { nCrash < CC && cUp -> nCrash++; cUp = 0; cSt = NONE; cN = 0; cWant = 0; cMust = 0 }
    :: atomic { !cUp && n1 == 0 -> cUp = 1; restart() }
    od
}

#ifdef M2 /* a child does not look before it submits */
#define missing(want) want
#else
#define missing(want) (want > jobs + ended -> want - jobs - ended : 0)
#endif
#ifdef M3 /* there is no lock */
#define free 1
#else
#define free (!lock)
#endif
#ifdef M6 /* what is wanted anew while a child is under way is not asked for when that is over */
#define over cMust = 0
#else
#define over skip
#endif
#define surplus(want) (waits > 0 && jobs > want)

/* What a child does with the lock: it looks, submits or withdraws one job after the other, and ends. */
#define child(n, want, req, miss) \
    :: atomic { n == 2 -> miss = missing(want); n = 3 } \
    :: atomic { n == 3 && miss == 0 && surplus(want) -> waits-- } \
    :: atomic { n == 3 && miss > 0 -> miss--; waits++; assert(req <= jN); checked } \
    :: atomic { n == 3 && miss == 0 && !surplus(want) -> n = 0; lock = 0; over }

/* The daemon's, and one that a daemon before it has left behind. A child that dies lets go of the lock. */
active proctype Child()
{
end:
    do
    :: atomic { cUp && cMust && n1 == 0 -> cMust = 0; n1 = 1; want1 = cWant; req1 = cN }
    :: atomic { n1 == 1 && free -> lock = 1; n1 = 2 }
#ifdef M9 /* a child that waited for the lock until its daemon was gone goes on */
    :: atomic { n2 == 1 && free -> lock = 1; n2 = 2 }
#else
    :: atomic { n2 == 1 && free -> n2 = 0 }
#endif
    child(n1, want1, req1, miss1)
    child(n2, want2, req2, miss2)
    :: atomic { !cUp && n1 > 0 && n2 == 0 -> n2 = n1; want2 = want1; req2 = req1; miss2 = miss1; n1 = 0 }
    :: atomic { !cUp && n1 > 0 -> if :: n1 > 1 -> lock = 0 :: else -> skip fi; n1 = 0 }
    :: atomic { !cUp && n2 > 0 -> if :: n2 > 1 -> lock = 0 :: else -> skip fi; n2 = 0 }
    od
}

active proctype Slurm()
{
end:
    do
    :: atomic { waits > 0 && !busy -> waits--; begun++ }
    :: atomic { !busy -> busy = 1 } /* no GPU is idle any more */
    :: atomic { begun > 0 && cUp && cWant > joined -> begun--; joined++ } /* a seat, and a hand-over */
    :: atomic { begun > 0 && cUp && cWant <= joined -> begun-- }      /* refused: it ends */
    :: atomic { begun > 0 && cSt == ASKED -> begun--; ended++ }   /* its script fails */
    :: atomic { jSt == ASKED && !late -> late = 1 }
    :: timeout -> break
    od;
    /* Nothing is under way: no request is left open, and no job waits that nobody wants. */
    assert(cUp && jSt != ASKED && cSt == jSt && waits == 0 && begun == 0 && n1 == 0 && n2 == 0)
}
