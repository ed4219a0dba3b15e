/* SPDX-License-Identifier: BSD-3-Clause */
/* kill -9 of a worker right before one of its system calls, as a tracer counts them: while a hand-over is copied in the background, from
 * its announcement to its end, also where layers are pruned meanwhile; while layers go to workers that have copies of them; in steps with
 * copies; and when copies of another lost worker are promoted. The others go on, with the losses of a worker alone, or say why they end.
 *
 * As a test these are a few plays. By hand: test_killed_calls --plays N counts the calls of each kind and worker, and kills at N of them,
 * equally far apart, at each where N is more (make killed-calls); --kind K plays one kind alone, 0 to 4 in the order of `enum kind`. */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/worker/run_world.h"

#define N 3
#define STEPS_TRACED 3 /* of STEPPING */
#define STEPS_AFTER 6
#define STEPS_ALONE 1000 /* more than most plays make */

enum kind { MOVING, PRUNED, FOLLOWED, STEPPING, PROMOTING, N_KINDS };

static const char *const names[N_KINDS] = {"a copied hand-over", "one of layers that are pruned", "a hand-over to copies",
                                           "steps with copies", "a promotion"};
static uint32_t n_plays; /* by hand; 0: as a test */
static uint32_t only = N_KINDS; /* by hand; N_KINDS: all of them */
static uint64_t seed = 1;
static struct {
    double *loss;
    uint32_t n;
} alone[2]; /* [1]: PRUNED */

static struct {
    uint32_t killed; /* plays */
    uint32_t kept, again; /* losses without a lost step; with steps made again */
    uint32_t ended; /* others, by themselves */
} sum;

/* ---- the tracer: a process of its own, which is neither the workers' parent nor in the way of the coordinator ---- */

static struct {
    volatile int is_attached; /* -1: it may not */
    volatile int is_off;      /* nothing counts any more */
    volatile uint32_t calls;
} *told; /* shared */
static pid_t tracer;

static bool is_entry(pid_t thread)
{
    struct __ptrace_syscall_info info;

    return ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) > 0 && info.op == PTRACE_SYSCALL_INFO_ENTRY;
}

/* All threads that there are; later ones come by themselves. */
static int attach(pid_t pid)
{
    const uintptr_t options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE;
    const struct dirent *e;
    char path[64];
    int n = 0;
    DIR *d;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    d = opendir(path);
    while (d && (e = readdir(d))) {
        pid_t thread = (pid_t)strtol(e->d_name, NULL, 10);

        if (thread > 0 && ptrace(PTRACE_SEIZE, thread, 0, options) == 0 && ptrace(PTRACE_INTERRUPT, thread, 0, 0) == 0)
            n++;
    }
    if (d)
        closedir(d);
    return n;
}

static void trace(pid_t pid, uint32_t at)
{
    pid_t thread;
    int status;

    told->is_attached = attach(pid) > 0 ? 1 : -1;
    while ((thread = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
        int sent = 0;

        if (thread <= 0 || !WIFSTOPPED(status))
            continue;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            if (!told->is_off && is_entry(thread) && ++told->calls == at)
                kill(pid, SIGKILL);
        } else if (status >> 16 == 0) {
            sent = WSTOPSIG(status);
        }
        ptrace(PTRACE_SYSCALL, thread, 0, (uintptr_t)sent);
    }
}

static void begin_trace(uint32_t rank, uint32_t at)
{
    memset((void *)told, 0, sizeof *told);
    fflush(NULL);
    tracer = fork();
    assert_true(tracer >= 0);
    if (tracer == 0) {
        trace(world.seat[rank].pid, at);
        _exit(0);
    }
    WORLD_UNTIL(told->is_attached || world_has_lost());
    if (told->is_attached < 0 && !world_has_lost()) {
        world_clear();
        waitpid(tracer, NULL, 0);
        skip(); /* not permitted here */
    }
}

/* returns: calls. */
static uint32_t end_trace(void)
{
    told->is_off = 1;
    return told->calls;
}

/* ---- a play ---- */

static void any_cut(uint32_t *cut)
{
    world_random_cut(&seed, WORLD_NOBODY, cut);
}

static void regroup(void)
{
    uint32_t cut[WORLD_SEATS + 1];

    if (!world_n_members())
        return;
    any_cut(cut);
    world_regroup(cut, any_cut);
    if (strstr(world.regrouped.text, "no step is lost"))
        sum.kept++;
    else
        sum.again++;
}

static bool has_reached(uint64_t step)
{
    uint32_t leader = world_leader();

    return leader == WORLD_NOBODY || (world.seat[leader].report_epoch == world.epoch && world.seat[leader].step >= step);
}

static void train_on(uint64_t n)
{
    uint32_t leader = world_leader();
    uint64_t step;

    WORLD_UNTIL(has_reached(1) || world_has_lost());
    step = leader == WORLD_NOBODY ? 0 : world.seat[leader].step;
    WORLD_UNTIL(has_reached(step + n) || world_has_lost());
}

/* What is traced. Worker 1 gets layers of both others in a hand-over that is copied; in one to copies each of two workers gets one that it
 * has a copy of. */
static void disturb(enum kind kind, uint32_t victim, uint32_t at)
{
    static const uint32_t cut[2][WORLD_SEATS + 1] = {{0, 1, 5, 6, 6, 6, 6, 6, 6}, {0, 1, 3, 6, 6, 6, 6, 6, 6}};
    const uint32_t first = (victim + 1) % N;

    if (kind == PROMOTING)
        world_kill(first);
    begin_trace(victim, at);
    if (kind == MOVING || kind == PRUNED || kind == FOLLOWED) {
        world_prepare(cut[kind == FOLLOWED], WORLD_NOBODY);
        world_decide();
    } else if (kind == STEPPING) {
        train_on(STEPS_TRACED);
    }
    if (world_has_lost())
        regroup();
}

/* The last four are PRUNED's: so slow that a layer is pruned several times on its way. */
static const char *const options[] = {"handover.background=always", "handover.copies=1", "handover.max_rate=0.05", "prune.begin=1",
                                      "prune.end=2500", "prune.every=2"};

static void start(enum kind kind, const char *name, uint32_t n_workers)
{
    static struct world_run run;

    run = (struct world_run){.name = name, .n_seats = n_workers, .n_there = n_workers, .options = options,
                             .n_options = kind == PRUNED ? 6 : 2};
    world_start(&run);
}

static void train_alone(enum kind kind, uint32_t steps)
{
    const bool is_pruned = kind == PRUNED;
    uint32_t lines;

    free(alone[is_pruned].loss);
    start(kind, "alone", 1);
    WORLD_UNTIL(world.seat[0].step >= steps || world.seat[0].is_dead);
    world_stop();
    alone[is_pruned].loss = world_losses(world.log, &alone[is_pruned].n, &lines);
}

static void compare(enum kind kind)
{
    const bool is_pruned = kind == PRUNED;
    uint32_t n, lines;
    double *here = world_losses(world.log, &n, &lines);

    unlink(world.log);
    if (n > alone[is_pruned].n)
        train_alone(kind, n);
    assert_true(n > 0 && n <= alone[is_pruned].n);
    for (uint32_t i = 1; i <= n; i++)
        if (memcmp(&here[i], &alone[is_pruned].loss[i], sizeof here[i]) != 0)
            fail_msg("step %u has a loss of %a, alone it is %a", i, here[i], alone[is_pruned].loss[i]);
    free(here);
}

/* Whoever was not killed has ended well, or has said why. */
static void check_ends(void)
{
    for (uint32_t r = 0; r < N; r++) {
        const struct world_seat *s = &world.seat[r];

        if (WIFSIGNALED(s->status) ? WTERMSIG(s->status) != SIGKILL : WEXITSTATUS(s->status) && !s->why[0])
            fail_msg("%s: worker %u ended with %x and no word", world.run->name, r, (unsigned)s->status);
        if (WIFEXITED(s->status) && WEXITSTATUS(s->status)) {
            printf("# worker %u ended: %s\n", r, s->why);
            sum.ended++;
        }
    }
}

/* at: the call that it is killed before; 0: none. returns: calls that were counted. */
static uint32_t play(enum kind kind, uint32_t victim, uint32_t at)
{
    static char name[64];
    uint32_t calls;

    snprintf(name, sizeof name, "killed-%d-%u-%u", (int)kind, victim, at);
    start(kind, name, N);
    world_await_copies();
    disturb(kind, victim, at);
    calls = end_trace();
    if (world_has_lost()) /* late: it was killed behind all that was waited for */
        regroup();
    train_on(STEPS_AFTER);
    if (world_has_lost())
        regroup();
    sum.killed += at && calls >= at;
    world_stop();
    assert_int_equal(waitpid(tracer, NULL, 0), tracer);
    check_ends();
    compare(kind);
    return calls;
}

static void sweep(enum kind kind, uint32_t victim)
{
    uint32_t calls = play(kind, victim, 0), n = n_plays < calls ? n_plays : calls;

    memset(&sum, 0, sizeof sum);
    for (uint32_t i = 0; i < n; i++)
        play(kind, victim, 1 + (uint32_t)((uint64_t)calls * i / n));
    printf("# %s, worker %u: %u calls; %u plays, %u killed, %u losses without a lost step, %u with steps made again, %u others ended\n",
           names[kind], victim, calls, n, sum.killed, sum.kept, sum.again, sum.ended);
    fflush(stdout);
}

/* At calls that every worker makes in that time, early and late ones. */
static void a_few_plays(enum kind kind)
{
    static const uint32_t at[N_KINDS][N] = {{5, 61, 113}, {5, 211, 313}, {5, 31, 61}, {1, 11, 23}, {3, 29, 53}};

    memset(&sum, 0, sizeof sum);
    for (uint32_t victim = 0; victim < N; victim++)
        play(kind, victim, at[kind][victim]);
    printf("# %s: %u of %d were killed\n", names[kind], sum.killed, N);
    assert_true(sum.killed > 0);
}

static void kill_in(enum kind kind)
{
    if (only != N_KINDS && only != (uint32_t)kind)
        skip();
    if (!n_plays)
        a_few_plays(kind);
    for (uint32_t victim = 0; victim < N && n_plays; victim++)
        sweep(kind, victim);
}

static void killed_in_a_copied_hand_over(void **state)
{
    (void)state;
    kill_in(MOVING);
}

static void killed_in_a_copied_hand_over_beside_pruning(void **state)
{
    (void)state;
    kill_in(PRUNED);
}

static void killed_in_a_hand_over_to_copies(void **state)
{
    (void)state;
    kill_in(FOLLOWED);
}

static void killed_in_a_step_with_copies(void **state)
{
    (void)state;
    kill_in(STEPPING);
}

static void killed_in_a_promotion(void **state)
{
    (void)state;
    kill_in(PROMOTING);
}

static int set_up(void **state)
{
    world_set_up(state);
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        return -1;
    train_alone(MOVING, STEPS_ALONE);
    train_alone(PRUNED, STEPS_ALONE);
    return 0;
}

static int tear_down(void **state)
{
    free(alone[0].loss);
    free(alone[1].loss);
    return world_tear_down(state);
}

static int read_number(const char *text, uint32_t least, uint32_t most, uint32_t *out)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || n < least || n > most) {
        fprintf(stderr, "test_killed_calls: '%s' is not a number from %u to %u\n", text, least, most);
        return -1;
    }
    *out = (uint32_t)n;
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"plays", required_argument, NULL, 'n'}, {"kind", required_argument, NULL, 'k'}, {0}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_in_a_copied_hand_over),
        cmocka_unit_test(killed_in_a_copied_hand_over_beside_pruning),
        cmocka_unit_test(killed_in_a_hand_over_to_copies),
        cmocka_unit_test(killed_in_a_step_with_copies),
        cmocka_unit_test(killed_in_a_promotion),
    };
    int opt;

    while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (opt == '?' || (opt == 'n' && read_number(optarg, 1, 100000, &n_plays) < 0) ||
            (opt == 'k' && read_number(optarg, 0, N_KINDS - 1, &only) < 0))
            return 2;
    }
    return cmocka_run_group_tests_name("killed_calls", tests, set_up, tear_down);
}
