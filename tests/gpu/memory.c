/* SPDX-License-Identifier: BSD-3-Clause */
/* What the proof of an empty slot asks of NVIDIA's library (daemon/release/nvml.h), on a real card: memory MIB PROGRAM ... runs a
 * program that holds so much of the first card's memory, says "ready", and ends when its input does. The process and its
 * memory must be seen while it lives, and both be gone when it has ended, in two samples. Prints lines; 1 where that is not so. */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/release/device_memory.h"

#define SAMPLE_NS 200000000 /* as empty_slot.c's */

static struct dp_device_files files;
static struct dp_cards cards;

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void find_files(void)
{
    char path[32];
    struct stat st;

    for (int i = 0; i < 32; i++) {
        snprintf(path, sizeof path, "/dev/nvidia%d", i);
        if (stat(path, &st) < 0 || !S_ISCHR(st.st_mode))
            continue;
        files.number[files.n][0] = major(st.st_rdev);
        files.number[files.n++][1] = minor(st.st_rdev);
    }
}

static int look(const char *when)
{
    const char *given = getenv("DP_NVML"); /* where the library is not in the system's folders */
    double from = now_ms();

    dp_nvml_look(given && *given ? given : dp_nvml_library(), &files, &cards);
    if (cards.state != DP_CARDS_SEEN || cards.n == 0) {
        printf("%s: nothing is seen: %s\n", when, cards.text[0] ? cards.text : "no card");
        return -1;
    }
    for (uint32_t i = 0; i < cards.n; i++)
        printf("%s: nvidia%u: %llu MiB in use, %u processes%s%s\n", when, cards.card[i].minor,
               (unsigned long long)(cards.card[i].used >> 20), cards.card[i].n_pids, cards.card[i].is_unseen ? ", not seen (MIG)" : "",
               cards.card[i].is_hosts ? ", memory of the host's" : "");
    printf("%s: the look took %.1f ms\n", when, now_ms() - from);
    return 0;
}

static const struct dp_gpu *find_pid(uint32_t pid)
{
    for (uint32_t i = 0; i < cards.n; i++)
        for (uint32_t k = 0; k < cards.card[i].n_pids; k++)
            if (cards.card[i].pid[k] == pid)
                return &cards.card[i];
    return NULL;
}

static pid_t begin(char **program, int *input)
{
    int to[2], from[2];
    char line[64] = "";
    pid_t pid;
    FILE *f;

    if (pipe(to) < 0 || pipe(from) < 0 || (pid = fork()) < 0)
        return -1;
    if (pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[1]);
        execv(program[0], program);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    *input = to[1];
    f = fdopen(from[0], "r");
    if (!f || !fgets(line, sizeof line, f) || strncmp(line, "ready", 5)) {
        printf("%s does not get ready: %s\n", program[0], line);
        return -1;
    }
    return pid;
}

static uint64_t used_of(const struct dp_cards *c, uint32_t minor)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->card[i].minor == minor)
            return c->card[i].used;
    return UINT64_MAX;
}

/* returns: it is seen. */
static int held(const struct dp_cards *before, uint32_t pid, uint64_t bytes, uint32_t *minor)
{
    const struct dp_gpu *g = find_pid(pid);

    if (!g) {
        printf("held: process %u is not told\n", pid);
        return 0;
    }
    *minor = g->minor;
    if (g->used >= used_of(before, *minor) + bytes)
        return 1;
    printf("held: of %llu MiB only %lld more are in use\n", (unsigned long long)(bytes >> 20),
           (long long)(g->used - used_of(before, *minor)) >> 20);
    return 0;
}

static int is_back(const struct dp_cards *before, uint32_t pid, uint32_t minor)
{
    if (find_pid(pid))
        printf("after: process %u is still told\n", pid);
    else if (used_of(&cards, minor) > used_of(before, minor) + DP_CARDS_TOLERANCE)
        printf("after: %llu MiB are not back\n", (unsigned long long)((used_of(&cards, minor) - used_of(before, minor)) >> 20));
    else
        return 1;
    return 0;
}

int main(int argc, char **argv)
{
    static const struct timespec pause = {.tv_nsec = SAMPLE_NS};
    uint64_t bytes = argc > 2 ? strtoull(argv[1], NULL, 10) << 20 : 0;
    static struct dp_cards before;
    uint32_t minor = 0;
    double ended_ms;
    int input = -1;
    pid_t pid;

    if (!bytes) {
        fprintf(stderr, "usage: memory MIB PROGRAM [ARGUMENT ...]\n");
        return 2;
    }
    find_files();
    if (look("before") < 0)
        return 1;
    before = cards;
    pid = begin(argv + 2, &input);
    if (pid < 0 || look("held") < 0 || !held(&before, (uint32_t)pid, bytes, &minor))
        return 1;
    kill(pid, SIGKILL);
    ended_ms = now_ms();
    waitpid(pid, NULL, 0);
    for (int i = 0; i < 2; i++) {
        if (look("after") < 0 || !is_back(&before, (uint32_t)pid, minor))
            return 1;
        if (i == 0) {
            printf("after: first sample %.1f ms after the kill\n", now_ms() - ended_ms);
            nanosleep(&pause, NULL);
        }
    }
    close(input);
    printf("memory: seen, and back\n");
    return 0;
}
