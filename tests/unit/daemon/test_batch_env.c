/* SPDX-License-Identifier: BSD-3-Clause */
/* Which process is a job's batch script, what it was given, and what of that another job like it may have. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/release/batch_env.h"

#define TEXT(s) s, sizeof(s) /* with the NUL behind the last one */

static void the_script_has_the_job_and_no_step(void **state)
{
    (void)state;
    assert_int_equal(dp_batch_env_is(TEXT("A=1\0SLURM_JOB_ID=7\0SLURMD_NODENAME=n1"), 7, "n1", NULL), 1);
    assert_int_equal(dp_batch_env_is(TEXT("SLURM_JOB_ID=7"), 7, "n1", NULL), 1);
    assert_int_equal(dp_batch_env_is(TEXT("SLURM_JOB_ID=7\0SLURM_CONF=/a"), 7, "n1", "/a"), 2);
    assert_int_equal(dp_batch_env_is(TEXT("SLURM_JOB_ID=7\0SLURM_CONF=/b"), 7, "n1", "/a"), 1);
    assert_int_equal(dp_batch_env_is(TEXT("SLURM_JOB_ID=77"), 7, "n1", NULL), 0);
    assert_int_equal(dp_batch_env_is(TEXT("SLURM_JOB_ID="), 7, "n1", NULL), 0);
    assert_int_equal(dp_batch_env_is(TEXT("XSLURM_JOB_ID=7"), 7, "n1", NULL), 0);
    assert_int_equal(dp_batch_env_is(TEXT("SLURM_JOB_ID=7\0SLURM_STEP_ID=0"), 7, "n1", NULL), 0);
    assert_int_equal(dp_batch_env_is(TEXT("SLURM_JOB_ID=7\0SLURMD_NODENAME=n2"), 7, "n1", NULL), 0);
    assert_int_equal(dp_batch_env_is(TEXT(""), 7, "n1", NULL), 0);
}

static void arguments_stand_behind_the_script(void **state)
{
    static const char line[] = "/bin/bash\0-e\0/var/spool/slurmd/job00007/slurm_script\0a b\0";
    static const char none[] = "/usr/bin/srun\0-n1\0worker\0/slurm_script\0x";
    static const char bare[] = "/bin/sh\0/slurm_script";

    (void)state;
    assert_string_equal(dp_batch_env_arguments(line, sizeof line - 1), "a b");
    assert_null(dp_batch_env_arguments(none, sizeof none));
    assert_ptr_equal(dp_batch_env_arguments(bare, sizeof bare), bare + sizeof bare);
    assert_null(dp_batch_env_arguments("", 0));
}

static void what_is_of_the_old_job_is_left_out(void **state)
{
    static const char *const stays[] = {
        "PATH=/bin", "HOME=/", "LD_LIBRARY_PATH=/x", "DYNPIPE_SLICES=4", "DYNPIPE_MODE=release", "SLURM_DYNPIPE=mode=release;slices=4",
        "SLURM_SPANK__SLURM_SPANK_OPTION_dynpipe_dynpipe=release", "SLURM_CPUS_PER_TASK=2", "SLURM_GPUS=1", "SLURM_GPUS_PER_NODE=1",
        "SLURM_MEM_PER_NODE=500", "SLURM_NTASKS=1", "SLURM_SUBMIT_DIR=/", "SLURM_UMASK=0022", "SLURM_RLIMIT_CORE=0", "SLURM_CONF=/x",
        "SLURM_JOB_NAME=one", "SLURMX=1", "EMPTY=",
    };
    static const char *const goes[] = {
        "SLURM_JOB_ID=7", "SLURM_JOBID=7", "SLURM_JOB_GPUS=0", "SLURM_NODELIST=n1", "SLURM_JOB_NODELIST=n1", "SLURM_NODE_ALIASES=",
        "SLURM_RESTART_COUNT=1", "SLURM_ARRAY_TASK_ID=1", "SLURM_JOB_START_TIME=1", "SLURM_TASK_PID=7", "SLURM_TOPOLOGY_ADDR=n1",
        "SLURM_HET_SIZE=2", "SLURMD_NODENAME=n1", "CUDA_VISIBLE_DEVICES=3", "DYNPIPE_SOCKET=/x", "DYNPIPE_JOB_ID=7",
        "DYNPIPE_STEP_ID=0", "DYNPIPE_NODE=n1", "SBATCH_ACCOUNT=x", "not a variable",
    };

    (void)state;
    for (size_t i = 0; i < sizeof stays / sizeof stays[0]; i++)
        if (!dp_batch_env_keeps(stays[i]))
            fail_msg("%s is left out", stays[i]);
    for (size_t i = 0; i < sizeof goes / sizeof goes[0]; i++)
        if (dp_batch_env_keeps(goes[i]))
            fail_msg("%s stays", goes[i]);
}

static void mask_and_limits_are_the_processes(void **state)
{
    static const char status[] = "Name:\tbash\nUmask:\t0027\nState:\tS\n";
    static const char limits[] = "Limit                     Soft Limit           Hard Limit           Units     \n"
                                 "Max cpu time              unlimited            unlimited            seconds   \n"
                                 "Max locked memory         8388608              unlimited            bytes     \n";
    const char *want[] = {"SLURM_UMASK=0027", "SLURM_RLIMIT_CPU=18446744073709551615", "SLURM_RLIMIT_MEMLOCK=8388608"};
    uint32_t n = 0;

    (void)state;
    for (unsigned i = 0; i <= DP_BATCH_ADDED; i++) {
        char *of_status = dp_batch_env_shown(i, "status", status), *of_limits = dp_batch_env_shown(i, "limits", limits);

        if (of_status)
            assert_string_equal(of_status, want[n++]);
        if (of_limits)
            assert_string_equal(of_limits, want[n++]);
        assert_null(dp_batch_env_shown(i, "status", ""));
        free(of_status);
        free(of_limits);
    }
    assert_int_equal(n, 3);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_script_has_the_job_and_no_step),
    cmocka_unit_test(arguments_stand_behind_the_script),
    cmocka_unit_test(what_is_of_the_old_job_is_left_out),
    cmocka_unit_test(mask_and_limits_are_the_processes),
};
TEST_MAIN("batch_env", tests)
