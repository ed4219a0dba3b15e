/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of a PMIx job, for the tests of the harness: init, put a value, fence with collection,
 * read every other rank's value, finalize. Prints "rank R of N" when all of that worked. */
#include <pmix.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what, pmix_status_t rc)
{
    fprintf(stderr, "pmix_probe: %s: %s\n", what, PMIx_Error_string(rc));
    return 1;
}

static pmix_status_t put_rank(uint32_t rank)
{
    pmix_value_t v;
    pmix_status_t rc;

    memset(&v, 0, sizeof v);
    v.type = PMIX_UINT32;
    v.data.uint32 = rank + 100;
    rc = PMIx_Put(PMIX_GLOBAL, "dp.probe", &v);
    return rc == PMIX_SUCCESS ? PMIx_Commit() : rc;
}

static pmix_status_t job_size(const pmix_proc_t *me, uint32_t *size)
{
    pmix_proc_t job;
    pmix_value_t *v = NULL;
    pmix_status_t rc;

    PMIX_LOAD_PROCID(&job, me->nspace, PMIX_RANK_WILDCARD);
    rc = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &v);
    if (rc == PMIX_SUCCESS)
        *size = v->data.uint32;
    if (v)
        PMIX_VALUE_RELEASE(v);
    return rc;
}

static pmix_status_t check_rank(const pmix_proc_t *me, uint32_t rank)
{
    pmix_proc_t peer;
    pmix_value_t *v = NULL;
    pmix_status_t rc;

    PMIX_LOAD_PROCID(&peer, me->nspace, rank);
    rc = PMIx_Get(&peer, "dp.probe", NULL, 0, &v);
    if (rc == PMIX_SUCCESS && v->data.uint32 != rank + 100)
        rc = PMIX_ERROR;
    if (v)
        PMIX_VALUE_RELEASE(v);
    return rc;
}

int main(void)
{
    pmix_proc_t me;
    pmix_info_t collect;
    bool yes = true;
    uint32_t size = 0;
    pmix_status_t rc;

    if ((rc = PMIx_Init(&me, NULL, 0)) != PMIX_SUCCESS)
        return fail("init", rc);
    if ((rc = job_size(&me, &size)) != PMIX_SUCCESS)
        return fail("job size", rc);
    if ((rc = put_rank(me.rank)) != PMIX_SUCCESS)
        return fail("put", rc);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    if ((rc = PMIx_Fence(NULL, 0, &collect, 1)) != PMIX_SUCCESS)
        return fail("fence", rc);
    for (uint32_t r = 0; r < size; r++)
        if ((rc = check_rank(&me, r)) != PMIX_SUCCESS)
            return fail("get", rc);
    printf("rank %u of %u\n", me.rank, size);
    return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 1;
}
