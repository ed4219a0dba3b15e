/* SPDX-License-Identifier: BSD-3-Clause */
/* See batch_env.h. The script is the child of a slurmstepd and has the job's number in its environment, but no step's: a task of
 * srun has both. It may have begun another program in its place (exec srun); the environment is that program's then.
 *
 * Its owner can make processes that look the same. What he gains is that his own jobs have another environment.
 */
#include "config.h"

#include "daemon/release/batch_env.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/release/procread.h"

#define ENV_BYTES_MAX (4u << 20) /* the kernel lets a program have some more, and Slurm would not take it */
#define SCRIPT_NAME "/slurm_script" /* as slurmd calls every script */

/* ---- what is told from bytes ---- */

static const char *value_of(const char *env, size_t bytes, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = env; p < env + bytes; p += strlen(p) + 1)
        if (!strncmp(p, name, n) && p[n] == '=')
            return p + n + 1;
    return NULL;
}

int dp_batch_env_is(const char *env, size_t bytes, uint32_t job_id, const char *node, const char *conf)
{
    const char *job = value_of(env, bytes, "SLURM_JOB_ID"), *at = value_of(env, bytes, "SLURMD_NODENAME");
    const char *its_conf = value_of(env, bytes, "SLURM_CONF");
    char number[16];

    snprintf(number, sizeof number, "%u", job_id);
    if (!job || strcmp(job, number) != 0 || (at && strcmp(at, node) != 0) || value_of(env, bytes, "SLURM_STEP_ID"))
        return 0;
    return conf && its_conf && !strcmp(conf, its_conf) ? 2 : 1;
}

const char *dp_batch_env_arguments(const char *line, size_t bytes)
{
    /* "/bin/bash -e /var/spool/slurmd/job00007/slurm_script a b": behind the interpreter, and what "#!" gives it. */
    const char *p = line;

    for (int i = 0; i < 3 && p < line + bytes; i++, p += strlen(p) + 1) {
        size_t n = strlen(p);

        if (n >= strlen(SCRIPT_NAME) && !strcmp(p + n - strlen(SCRIPT_NAME), SCRIPT_NAME))
            return p + n + 1;
    }
    return NULL;
}

/* Of sbatch's options, as srun(1) reads them; by their beginnings where there are many. */
static const char *const kept[] = {
    "SLURM_ACCTG_FREQ=", "SLURM_BURST_BUFFER=", "SLURM_CONF=", "SLURM_CORE_SPEC=", "SLURM_CPUS_PER_GPU=", "SLURM_CPUS_PER_TASK=",
    "SLURM_CPU_BIND", "SLURM_CPU_FREQ_REQ=", "SLURM_DEBUG=", "SLURM_DELAY_BOOT=", "SLURM_DISTRIBUTION=", "SLURM_DIST_PLANESIZE=",
    "SLURM_DYNPIPE=", "SLURM_EXPORT_ENV=", "SLURM_GET_USER_ENV=", "SLURM_GPUS", "SLURM_GPU_BIND=", "SLURM_GPU_FREQ=", "SLURM_HINT=",
    "SLURM_JOB_NAME=", "SLURM_MEM_", "SLURM_MPI_TYPE=", "SLURM_NETWORK=", "SLURM_NPROCS=", "SLURM_NTASKS", "SLURM_OPEN_MODE=",
    "SLURM_OVERCOMMIT=", "SLURM_PRIO_PROCESS=", "SLURM_PROFILE=", "SLURM_RLIMIT_", "SLURM_SPANK_", "SLURM_SUBMIT_DIR=",
    "SLURM_SUBMIT_HOST=", "SLURM_THREADS_PER_CORE=", "SLURM_THREAD_SPEC=", "SLURM_TRES_BIND=", "SLURM_TRES_PER_", "SLURM_UMASK=",
    "SLURM_WCKEY=",
};

/* Of the old job, or of a node of it. */
static const char *const dropped[] = {
    "SLURM_", "SLURMD_", "SBATCH_", "CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=", "ZE_AFFINITY_MASK=", "GPU_DEVICE_ORDINAL=",
    "NVIDIA_VISIBLE_DEVICES=", "DYNPIPE_SOCKET=", "DYNPIPE_JOB_ID=", "DYNPIPE_STEP_ID=", "DYNPIPE_NODE=", "ENVIRONMENT=BATCH",
};

static bool begins(const char *text, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strncmp(text, list[i], strlen(list[i])))
            return true;
    return false;
}

bool dp_batch_env_keeps(const char *variable)
{
    return strchr(variable, '=') && (begins(variable, kept, sizeof kept / sizeof kept[0]) ||
                                     !begins(variable, dropped, sizeof dropped / sizeof dropped[0]));
}

/* ---- the process ---- */

/* A whole file of /proc, a NUL behind it. NULL: it cannot be read, or is too long. */
static char *read_whole(uint32_t pid, const char *name, size_t *bytes)
{
    size_t cap = 65536, n = 0;
    char path[64], *text = NULL, *more;
    ssize_t k = -1;
    int fd;

    snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    for (; fd >= 0 && cap <= ENV_BYTES_MAX; cap *= 2) {
        more = realloc(text, cap + 1);
        if (!more)
            break;
        text = more;
        while ((k = read(fd, text + n, cap - n)) > 0 || (k < 0 && errno == EINTR))
            n += k > 0 ? (size_t)k : 0;
        if (k < 0 || n < cap)
            break;
    }
    if (fd >= 0)
        close(fd);
    if (k != 0 || n == 0) {
        free(text);
        return NULL;
    }
    text[n] = '\0';
    *bytes = n;
    return text;
}

static bool is_step_daemon(const struct dp_proc *p)
{
    return !strncmp(p->comm, "slurmstepd", 10);
}

/* Until it begins the script the child is a slurmstepd itself, with the environment that slurmd gave to that. */
static bool is_child_of_step(uint32_t pid)
{
    struct dp_proc p, parent;

    return dp_proc_read(pid, &p) && !is_step_daemon(&p) && dp_proc_read(p.ppid, &parent) && is_step_daemon(&parent);
}

/* The best of all processes; 0: none. */
static uint32_t find_script(uint32_t job_id, const char *node, const char *conf, int least)
{
    DIR *dir = opendir("/proc");
    uint32_t best = 0;
    int most = least - 1, is;

    for (const struct dirent *e; dir && (e = readdir(dir));) {
        uint32_t pid = (uint32_t)strtoul(e->d_name, NULL, 10);
        size_t bytes = 0;
        char *env = pid && is_child_of_step(pid) ? read_whole(pid, "environ", &bytes) : NULL;

        is = env ? dp_batch_env_is(env, bytes, job_id, node, conf) : 0;
        if (is > most) {
            most = is;
            best = pid;
        }
        free(env);
    }
    if (dir)
        closedir(dir);
    return best;
}

/* ---- lists ---- */

static uint32_t n_strings(const char *text, size_t bytes)
{
    uint32_t n = 0;

    for (const char *p = text; p < text + bytes; p += strlen(p) + 1)
        n++;
    return n;
}

/* slurmstepd takes the mask of new files and the limits out of the environment, where it had them from; a program has them still. */
static const struct {
    const char *name, *file, *label;
} taken_out[DP_BATCH_ADDED] = {
    {"SLURM_UMASK", "status", "\nUmask:"},
    {"SLURM_RLIMIT_CPU", "limits", "\nMax cpu time"},
    {"SLURM_RLIMIT_FSIZE", "limits", "\nMax file size"},
    {"SLURM_RLIMIT_DATA", "limits", "\nMax data size"},
    {"SLURM_RLIMIT_STACK", "limits", "\nMax stack size"},
    {"SLURM_RLIMIT_CORE", "limits", "\nMax core file size"},
    {"SLURM_RLIMIT_RSS", "limits", "\nMax resident set"},
    {"SLURM_RLIMIT_NPROC", "limits", "\nMax processes"},
    {"SLURM_RLIMIT_NOFILE", "limits", "\nMax open files"},
    {"SLURM_RLIMIT_MEMLOCK", "limits", "\nMax locked memory"},
    {"SLURM_RLIMIT_AS", "limits", "\nMax address space"},
};

char *dp_batch_env_shown(unsigned i, const char *file, const char *text)
{
    const char *line = i < DP_BATCH_ADDED && !strcmp(file, taken_out[i].file) ? strstr(text, taken_out[i].label) : NULL;
    char value[32], *variable = NULL;

    if (!line || sscanf(line + strlen(taken_out[i].label), " %31s", value) != 1)
        return NULL;
    if (!strcmp(value, "unlimited")) /* as sbatch writes RLIM_INFINITY */
        snprintf(value, sizeof value, "%llu", (unsigned long long)-1);
    return asprintf(&variable, "%s=%s", taken_out[i].name, value) < 0 ? NULL : variable;
}

static void add_shown(uint32_t pid, const char *env, size_t env_bytes, uint32_t n, struct dp_batch_env *out)
{
    size_t bytes;
    char *text[2] = {read_whole(pid, "status", &bytes), read_whole(pid, "limits", &bytes)};

    for (unsigned i = 0; i < DP_BATCH_ADDED; i++) {
        bool is_limit = !strcmp(taken_out[i].file, "limits");
        char *variable = !value_of(env, env_bytes, taken_out[i].name) && text[is_limit]
                             ? dp_batch_env_shown(i, taken_out[i].file, text[is_limit]) : NULL;

        out->owned[2 + i] = variable;
        if (variable)
            out->env[n++] = variable;
    }
    free(text[0]);
    free(text[1]);
}

static int list_env(uint32_t pid, char *text, size_t bytes, struct dp_batch_env *out)
{
    uint32_t n = 0;

    out->env = calloc((size_t)n_strings(text, bytes) + DP_BATCH_ADDED + 1, sizeof *out->env);
    if (!out->env)
        return -1;
    for (char *p = text; p < text + bytes; p += strlen(p) + 1)
        if (dp_batch_env_keeps(p))
            out->env[n++] = p;
    add_shown(pid, text, bytes, n, out);
    return 0;
}

/* The script's name is the first word of command; its arguments stand in the process's line, or are the other words. */
static int list_argv(const char *line, size_t bytes, const char *command, struct dp_batch_env *out)
{
    const char *rest = line ? dp_batch_env_arguments(line, bytes) : NULL;
    size_t n_words = 1, n = 0, size = strlen(command) + 1 + (rest ? (size_t)(line + bytes - rest) : 0) + 1;
    char *own = malloc(size), *p = own;

    for (const char *c = command; *c; c++)
        n_words += *c == ' ';
    out->argv = calloc(n_words + (rest ? n_strings(rest, (size_t)(line + bytes - rest)) : 0) + 1, sizeof *out->argv);
    out->owned[1] = own;
    if (!own || !out->argv)
        return -1;
    memcpy(own, command, strlen(command) + 1);
    for (char *word; (word = strsep(&p, " ")) && (n == 0 || !rest);)
        if (word[0])
            out->argv[n++] = word;
    if (!rest)
        return 0;
    p = own + strlen(command) + 1;
    memcpy(p, rest, (size_t)(line + bytes - rest));
    for (const char *end = p + (line + bytes - rest); p < end; p += strlen(p) + 1)
        out->argv[n++] = p;
    return 0;
}

int dp_batch_env_read(uint32_t job_id, const char *node, const char *conf, int least, const char *command, struct dp_batch_env *out,
                      struct dp_err *err)
{
    uint32_t pid = find_script(job_id, node, conf, least);
    size_t env_bytes = 0, line_bytes = 0;
    char *env = pid ? read_whole(pid, "environ", &env_bytes) : NULL, *line;

    memset(out, 0, sizeof *out);
    if (!env)
        return dp_err_set(err, DP_EGONE, "the process of the job's script is not to be seen on '%s'", node);
    line = read_whole(pid, "cmdline", &line_bytes);
    out->owned[0] = env;
    if (list_env(pid, env, env_bytes, out) < 0 || list_argv(line, line_bytes, command, out) < 0) {
        free(line);
        dp_batch_env_release(out);
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    }
    free(line);
    return 0;
}

void dp_batch_env_release(struct dp_batch_env *e)
{
    free(e->env);
    free(e->argv);
    for (size_t i = 0; i < sizeof e->owned / sizeof e->owned[0]; i++)
        free(e->owned[i]);
    memset(e, 0, sizeof *e);
}
