/* SPDX-License-Identifier: BSD-3-Clause */
/* What cgroups allow, from a tree like the kernel's. */
#include "worker/train/start/memory_limit.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static char root[64];

static void put(const char *folder, const char *file, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof path, "%s%s", root, folder);
    mkdir(path, 0700);
    if (!file)
        return;
    snprintf(path, sizeof path, "%s%s/%s", root, folder, file);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void the_smallest_on_the_way_up_counts(void **state)
{
    (void)state;
    put("/job", "memory.max", "2000000\n");
    put("/job/step", "memory.max", "max\n");
    assert_int_equal(dp_memory_cgroup_limit(root, "0::/job/step\n"), 2000000);
    put("/job/step", "memory.max", "1000000\n");
    assert_int_equal(dp_memory_cgroup_limit(root, "0::/job/step\n"), 1000000);
    assert_int_equal(dp_memory_cgroup_limit(root, "0::/other\n"), 0);
}

static void v1_counts_too(void **state)
{
    (void)state;
    put("/memory", NULL, "");
    put("/memory/slurm", "memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(dp_memory_cgroup_limit(root, "4:cpu:/x\n5:memory:/slurm\n"), 0);
    put("/memory/slurm", "memory.limit_in_bytes", "3000000\n");
    assert_int_equal(dp_memory_cgroup_limit(root, "4:cpu:/x\n5:memory:/slurm\n0::/\n"), 3000000);
}

static void nonsense_is_no_limit(void **state)
{
    (void)state;
    assert_int_equal(dp_memory_cgroup_limit(root, ""), 0);
    assert_int_equal(dp_memory_cgroup_limit(root, "\n:\nx\n0:\n::\n"), 0);
    assert_int_equal(dp_memory_limit(NULL, 3, 0), 3 << 20);
}

static int device_info(struct dp_backend *be, struct dp_device_info *out, struct dp_err *err)
{
    (void)be;
    (void)err;
    *out = (struct dp_device_info){.total_bytes = 1000, .free_bytes = 600};
    return 0;
}

/* Memory of the device's own: what is free, and what the stage has of it already. */
static void a_device_limits(void **state)
{
    static const struct dp_backend_ops ops = {.info = device_info};
    struct dp_backend be = {.ops = &ops, .info = {.total_bytes = 1000, .free_bytes = 900}};

    (void)state;
    assert_int_equal(dp_memory_limit(&be, 0, 50), 650);
    assert_int_equal(dp_memory_limit(&be, 3, 50), 3 << 20);
}

static void remove_tree(void)
{
    static const char *const gone[] = {"/job/step/memory.max", "/job/step", "/job/memory.max", "/job",
                                       "/memory/slurm/memory.limit_in_bytes", "/memory/slurm", "/memory", ""};
    char path[256];

    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        snprintf(path, sizeof path, "%s%s", root, gone[i]);
        remove(path);
    }
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/dp-memory-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int drop_root(void **state)
{
    (void)state;
    remove_tree();
    return 0;
}

/* The part of its files that is clean can be dropped; anonymous, shared and dirty memory cannot. */
static void what_a_job_holds_on_its_node(void **state)
{
    (void)state;
    put("/system", NULL, NULL);
    put("/system/job_7", "memory.current", "1000000\n");
    put("/system/job_7", "memory.stat", "anon 600000\nfile 400000\nfile_dirty 50000\nfile_writeback 10000\n"
        "inactive_anon 0\nactive_file 100000\ninactive_file 250000\n");
    assert_int_equal(dp_memory_job(root, "0::/system/job_7/step_0/user/task_0\n"), 1000000 - 350000 + 60000);
    assert_int_equal(dp_memory_job(root, "0::/system/job_7/step_extern\n"), 710000);
    assert_int_equal(dp_memory_job(root, "0::/system/other/step_0\n"), 0);
    assert_int_equal(dp_memory_job(root, "0::/system/job_7\n"), 0);
    put("/memory", NULL, NULL);
    put("/memory/slurm", NULL, NULL);
    put("/memory/slurm/job_7", "memory.usage_in_bytes", "900\n");
    put("/memory/slurm/job_7", "memory.stat", "inactive_file 1\ntotal_dirty 30\ntotal_inactive_file 100\ntotal_active_file 200\n");
    assert_int_equal(dp_memory_job(root, "9:cpu:/slurm/job_7\n4:memory:/slurm/job_7/step_1\n"), 900 - 300 + 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_on_the_way_up_counts),
        cmocka_unit_test(v1_counts_too),
        cmocka_unit_test(nonsense_is_no_limit), cmocka_unit_test(a_device_limits),
        cmocka_unit_test(what_a_job_holds_on_its_node),
    };

    return cmocka_run_group_tests_name("memory", tests, make_root, drop_root);
}
