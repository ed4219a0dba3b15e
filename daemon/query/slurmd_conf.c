/* SPDX-License-Identifier: BSD-3-Clause */
/* See slurmd_conf.h. slurmstepd takes its plugins from the file of the slurmd that starts it: -f, else SLURM_CONF of
 * slurmd's environment, else the copy of a slurmd without configuration of its own, else the file that Slurm was built
 * with. */
#include "config.h"

#include "daemon/query/slurmd_conf.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/release/procscan.h"

#define FETCHED_CONF "/run/slurm/conf/slurm.conf"
#define DEFAULT_CONF "/etc/slurm/slurm.conf"

enum { MAX_DEPTH = 8 };

/* A file of /proc whose strings end with NUL each. returns: bytes, 0: cannot be read. */
static size_t read_strings(unsigned pid, const char *name, char *out, size_t cap)
{
    char path[64];
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, out, cap - 1);
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* The argument of an option of one letter, in either form ("-f FILE", "-fFILE"). NULL: not given. */
static const char *option_of(const char *line, size_t bytes, char letter)
{
    for (const char *p = line + strlen(line) + 1; p < line + bytes; p += strlen(p) + 1) {
        if (p[0] != '-' || p[1] != letter)
            continue;
        if (p[2])
            return p + 2;
        p += strlen(p) + 1;
        return p < line + bytes ? p : NULL;
    }
    return NULL;
}

static const char *variable_of(const char *environment, size_t bytes, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = environment; p < environment + bytes; p += strlen(p) + 1)
        if (!strncmp(p, name, n) && p[n] == '=')
            return p + n + 1;
    return NULL;
}

/* Whoever may give a root process its arguments (a user who starts a setuid program under this name, for one) must
 * not choose what we load: the program itself must be slurmd, and nobody else's to write. */
static bool is_trusted_slurmd(unsigned pid, const struct dp_proc *proc)
{
    char link[64], exe[1024];
    const char *name;
    struct stat st;
    ssize_t n;

    snprintf(link, sizeof link, "/proc/%u/exe", pid);
    n = readlink(link, exe, sizeof exe - 1);
    if (n <= 0 || (proc->uid != 0 && proc->uid != geteuid()))
        return false;
    exe[n] = '\0';
    name = strrchr(exe, '/') ? strrchr(exe, '/') + 1 : exe; /* slurmd-wlm in Debian */
    return (!strcmp(name, "slurmd") || !strncmp(name, "slurmd-", 7)) && stat(link, &st) == 0 &&
           (st.st_uid == 0 || st.st_uid == geteuid()) && !(st.st_mode & (S_ISUID | S_ISGID | S_IWGRP | S_IWOTH));
}

/* *is_trusted: its arguments may be gone by; an ordinary user cannot see enough of root's slurmd to tell. */
static bool is_slurmd_of(unsigned pid, const char *node, bool is_one_of_several, char *line, size_t cap, size_t *bytes,
                         bool *is_trusted)
{
    const char *name;
    struct dp_proc proc;

    if (!dp_proc_read(pid, &proc) || strcmp(proc.comm, "slurmd") != 0)
        return false;
    *bytes = read_strings(pid, "cmdline", line, cap);
    if (!*bytes)
        return false;
    *is_trusted = is_trusted_slurmd(pid, &proc);
    name = option_of(line, *bytes, 'N');
    return !is_one_of_several || (name && !strcmp(name, node));
}

static void conf_of(unsigned pid, const char *line, size_t bytes, bool is_trusted, char *out, size_t cap)
{
    static char environment[65536];
    const char *file = is_trusted ? option_of(line, bytes, 'f') : NULL, *own = getenv("SLURM_CONF");

    if (!file && is_trusted) {
        size_t n = read_strings(pid, "environ", environment, sizeof environment);

        file = variable_of(environment, n, "SLURM_CONF");
    }
    if (!file && own && *own)
        file = own;
    if (!file && access(DEFAULT_CONF, F_OK) < 0 && access(FETCHED_CONF, F_OK) == 0)
        file = FETCHED_CONF;
    snprintf(out, cap, "%s", file ? file : DEFAULT_CONF);
}

/* Private Slurms on one machine may have the same names of nodes. */
static bool has_controller(const char *conf, unsigned port)
{
    char text[64];

    dp_slurm_conf_value(conf, "SlurmctldPort", text, sizeof text);
    return strtoul(*text ? text : "6817", NULL, 10) == port;
}

int dp_slurmd_find_conf(const char *node, unsigned controller_port, char *out, size_t cap, struct dp_err *err)
{
    char found[1024];
    DIR *proc = opendir("/proc");
    char line[4096];
    struct dirent *e;
    bool is_found = false, is_sure = false;

    while (proc && !is_sure && (e = readdir(proc))) {
        unsigned pid = (unsigned)strtoul(e->d_name, NULL, 10);
        bool is_trusted = false;
        size_t bytes = 0;

        if (!pid || !is_slurmd_of(pid, node, controller_port != 0, line, sizeof line, &bytes, &is_trusted))
            continue;
        conf_of(pid, line, bytes, is_trusted, found, sizeof found);
        if (controller_port && !has_controller(found, controller_port))
            continue;
        is_found = true;
        is_sure = is_trusted; /* one that only calls itself slurmd must not hide it */
        snprintf(out, cap, "%s", found);
    }
    if (proc)
        closedir(proc);
    return is_found ? 0 : dp_err_set(err, DP_EGONE, "no slurmd of node %s runs here", node);
}

static void read_conf(const char *path, int depth, const char *key, char *out, size_t cap)
{
    FILE *file = depth < MAX_DEPTH ? fopen(path, "re") : NULL;
    size_t n = strlen(key), room = 0;
    char *line = NULL;

    while (file && getline(&line, &room, file) >= 0) {
        const char *p = line + strspn(line, " \t");

        if (!strncasecmp(p, "include ", 8)) {
            const char *slash = strrchr(path, '/');
            char other[1024];

            p += 8 + strspn(p + 8, " \t");
            snprintf(other, sizeof other, "%.*s%.*s", *p == '/' || !slash ? 0 : (int)(slash + 1 - path), path,
                     (int)strcspn(p, " \t\r\n#"), p);
            read_conf(other, depth + 1, key, out, cap);
        } else if (!strncasecmp(p, key, n) && p[n + strspn(p + n, " \t")] == '=') {
            p += n + strspn(p + n, " \t") + 1;
            p += strspn(p, " \t\"");
            snprintf(out, cap, "%.*s", (int)strcspn(p, " \t\r\n#\""), p);
        }
    }
    free(line);
    if (file)
        fclose(file);
}

void dp_slurm_conf_value(const char *path, const char *key, char *out, size_t cap)
{
    out[0] = '\0';
    read_conf(path, 0, key, out, cap);
}
