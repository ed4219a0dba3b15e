/* SPDX-License-Identifier: BSD-3-Clause */
/* What the stand-in for NVIDIA's management library (nvml.c) answers: a file that NVML_SCRIPT names, mapped by a test and by
 * whoever loads the library. */
#ifndef DP_TESTS_NVML_SCRIPT_H
#define DP_TESTS_NVML_SCRIPT_H

enum { NVML_CARDS = 4, NVML_PIDS = 80 };

struct nvml_script {
    int init, handle;          /* what these calls return */
    int hangs, dies;           /* who asks for memory hangs; or is killed */
    unsigned n_inits, n_reads; /* calls so far, n_reads: of memory */
    unsigned n_cards;
    struct {
        unsigned minor, is_mig, is_numa;
        int list, memory;      /* what these calls return */
        unsigned long long used, used_then;
        unsigned n_before_then; /* reads of used before used_then is the answer; 0: it never is */
        unsigned n_pids, pid[NVML_PIDS];
    } card[NVML_CARDS];
};

#endif
