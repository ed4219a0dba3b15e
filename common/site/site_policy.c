/* SPDX-License-Identifier: BSD-3-Clause */
/* See site_policy.h. Runs where blocking is allowed: in the child that works out a decision
 * (daemon/coord/decide/plan.c), or before the daemon listens.
 *
 * The child is a fork, so that the snapshot need not be written out; its answer comes back through a
 * pipe as bytes that nobody believes: lengths and texts are bounded here, the layout is checked by
 * dp_policy_run(). Nothing of the shared object ever runs in the process that checks, nor with root's
 * rights: the file is opened as root, then the child becomes NOBODY, then it is loaded.
 */
#include "config.h"

#include "common/site/site_policy.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/file/trusted_file.h"

#define MEMORY_MAX (1ull << 30) /* of a policy's own data */
#define ARGUMENTS_MAX 32 /* of one policy, in 255 bytes of text */
#define NOBODY 65534u /* the kernel's own number for who owns nothing */

enum answer { ANSWER_LAYOUT = 1, ANSWER_NONE, ANSWER_UNUSABLE };

struct reply {
    uint32_t what;  /* enum answer */
    char text[256]; /* why not */
    struct dp_policy_out out;
};

/* ---- in the child ---- */

/* Root's rights end here, before the first line of the policy runs. */
static int drop_rights(struct dp_err *err)
{
    if (geteuid() != 0)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0 || setuid(0) == 0)
        return dp_err_set(err, DP_ENOTSUP, "cannot give up root's rights: %s", strerror(errno));
    return 0;
}

/* Loaded through the descriptor that was opened with our rights: what was looked at is what runs, and the
 * folder need not be open to everybody. */
static void *load_trusted(const char *file, struct dp_err *err)
{
    void *library = NULL;
    char path[64];
    int fd;

    if (dp_trusted_file_check(file, err) < 0)
        return NULL;
    fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        dp_err_set(err, DP_EIO, "%s: %s", file, strerror(errno));
    else if (drop_rights(err) == 0) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten with root's rights */
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            dp_err_set(err, DP_ENOTSUP, "%s cannot be loaded: %s", file, dlerror());
    }
    if (fd >= 0)
        close(fd);
    return library;
}

/* Whoever runs this program may run what he likes with his own rights: any file, by any way. */
static void *load_own(const char *file, struct dp_err *err)
{
    void *library = NULL;

    if (access(file, R_OK) < 0) /* the loader would say more than there is to say */
        dp_err_set(err, DP_EIO, "%s", strerror(errno));
    else if (!(library = dlopen(file, RTLD_NOW | RTLD_LOCAL)))
        dp_err_set(err, DP_ENOTSUP, "cannot be loaded: %s", dlerror());
    return library;
}

static const struct dp_policy *load(const struct dp_site_policy *s, struct dp_err *err)
{
    void *library = s->is_own ? load_own(s->file, err) : load_trusted(s->file, err);
    const struct dp_policy *policy;

    if (!library)
        return NULL;
    policy = dlsym(library, DP_POLICY_SYMBOL);
    if (!policy) {
        dp_err_set(err, DP_ENOTSUP, "%s has no symbol " DP_POLICY_SYMBOL, s->is_own ? "it" : s->file);
        return NULL;
    }
    if (dp_policy_check(policy, err) < 0) {
        if (!s->is_own) /* whose name is the file */
            dp_err_prefix(err, "%s", s->file);
        return NULL;
    }
    return policy;
}

static int open_policy(const struct dp_site_policy *s, const struct dp_policy *policy, void **state,
                       struct dp_err *err)
{
    static char text[sizeof s->arguments]; /* both stay: the policy may keep pointers to them */
    static char *argv[ARGUMENTS_MAX + 1];
    char *rest = text;
    int argc = 0;

    if (!policy->open && s->arguments[0])
        return dp_err_set(err, DP_EINVAL, "it takes no arguments");
    if (!policy->open)
        return 0;
    memcpy(text, s->arguments, sizeof text);
    while (argc < ARGUMENTS_MAX && (argv[argc] = strsep(&rest, " \t")))
        argc += argv[argc][0] != '\0';
    if (argc == ARGUMENTS_MAX && rest && rest[strspn(rest, " \t")])
        return dp_err_set(err, DP_EINVAL, "more than %d arguments", ARGUMENTS_MAX);
    argv[argc] = NULL;
    return policy->open(state, argc, argv, err);
}

/* in NULL: only look whether it can be asked. */
static void answer_in_child(const struct dp_site_policy *s, const struct dp_policy_in *in, struct reply *r)
{
    static struct dp_err err;
    const struct dp_policy *policy = load(s, &err);
    void *state = NULL;

    r->what = ANSWER_UNUSABLE;
    if (!policy || open_policy(s, policy, &state, &err) < 0) {
        snprintf(r->text, sizeof r->text, "%.*s", (int)sizeof r->text - 1, err.text);
        return;
    }
    r->what = ANSWER_LAYOUT;
    if (in && policy->decide(state, in, &r->out, &err) != 0) {
        r->what = ANSWER_NONE;
        snprintf(r->text, sizeof r->text, "%.*s", (int)sizeof r->text - 1, err.text);
    }
    if (policy->close)
        policy->close(state);
}

static void limit_child(void)
{
    struct rlimit core = {0, 0};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct rlimit data = {MEMORY_MAX, MEMORY_MAX};

    setrlimit(RLIMIT_DATA, &data);
#endif
    setrlimit(RLIMIT_CORE, &core);
}

static void be_child(const struct dp_site_policy *s, const struct dp_policy_in *in, int fd, pid_t parent,
                     double seconds)
{
    static struct reply r;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    dp_child_become(fd, seconds);
    limit_child();
    answer_in_child(s, in, &r);
    dp_child_write(fd, (const uint8_t *)&r, sizeof r);
    _exit(0);
}

/* ---- outside of it ---- */

/* Read the whole reply before the deadline. returns bytes read; fewer: it ended before (or the deadline
 * passed, *is_late). */
static size_t read_reply(int fd, struct reply *r, uint64_t deadline_ns, bool *is_late)
{
    size_t used = 0;

    *is_late = false;
    while (used < sizeof *r) {
        uint64_t now = dp_now_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (now >= deadline_ns) {
            *is_late = true;
            break;
        }
        if (poll(&p, 1, (int)((deadline_ns - now) / 1000000u) + 1) <= 0)
            continue; /* the clock decides */
        n = read(fd, (char *)r + used, sizeof *r - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    return used;
}

static int say_death(int status, struct dp_err *err)
{
    if (WIFSIGNALED(status))
        return dp_err_set(err, DP_EGONE, "it crashed: signal %d (%s)", WTERMSIG(status),
                          strsignal(WTERMSIG(status)));
    return dp_err_set(err, DP_EGONE, "it ended its process (status %d) instead of answering",
                      WEXITSTATUS(status));
}

static int take_reply(struct reply *r, struct dp_policy_out *out, struct dp_err *err)
{
    r->text[sizeof r->text - 1] = '\0';
    switch (r->what) {
    case ANSWER_LAYOUT:
        if (out)
            *out = r->out;
        return 0;
    case ANSWER_NONE:
        return dp_err_set(err, DP_EINVAL, "%s", r->text[0] ? r->text : "it gave no layout and no reason");
    case ANSWER_UNUSABLE:
        return dp_err_set(err, DP_ENOTSUP, "%s", r->text);
    }
    return dp_err_set(err, DP_EPROTO, "answer %u", r->what);
}

static int ask(struct dp_site_policy *s, const struct dp_policy_in *in, struct dp_policy_out *out,
               struct dp_err *err)
{
    uint64_t start = dp_now_ns(), budget = (uint64_t)(s->timeout_s * 1e9);
    uint64_t left = budget > s->spent_ns ? budget - s->spent_ns : 0;
    pid_t parent = getpid(), pid;
    int fds[2], status = 0;
    struct reply r;
    bool is_late;
    size_t used;

    if (s->is_own)
        left = budget;
    if (!left)
        return dp_err_set(err, DP_ETIMEOUT, "no answer within %g s", s->timeout_s);
    if (pipe2(fds, O_CLOEXEC) < 0)
        return dp_err_set(err, DP_EGONE, "pipe: %s", strerror(errno));
    pid = fork();
    if (pid == 0)
        be_child(s, in, fds[1], parent, (double)left / 1e9);
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return dp_err_set(err, DP_EGONE, "fork: %s", strerror(errno));
    }
    used = read_reply(fds[0], &r, start + left, &is_late);
    close(fds[0]);
    if (used < sizeof r && !is_late) {
        /* Its end of the pipe is closed: it is dying, or it closed the pipe and goes on. */
        while (waitpid(pid, &status, WNOHANG) == 0 && !(is_late = dp_now_ns() >= start + left))
            poll(NULL, 0, 1);
    }
    if (used == sizeof r || is_late) {
        kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    s->spent_ns += dp_now_ns() - start;
    if (used == sizeof r)
        return take_reply(&r, out, err);
    if (is_late)
        return dp_err_set(err, DP_ETIMEOUT, "no answer within %g s", s->timeout_s);
    return say_death(status, err);
}

static int site_decide(void *state, const struct dp_policy_in *in, struct dp_policy_out *out,
                       struct dp_err *err)
{
    return ask(state, in, out, err);
}

void dp_site_policy_init(struct dp_site_policy *s, const char *name, const char *file, const char *arguments,
                         double timeout_s)
{
    memset(s, 0, sizeof *s);
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->file, sizeof s->file, "%s", file);
    snprintf(s->arguments, sizeof s->arguments, "%s", arguments);
    s->timeout_s = timeout_s;
    s->policy = (struct dp_policy){
        .abi = DP_POLICY_ABI, .name = s->name, .help = "a policy of this site", .decide = site_decide};
}

int dp_site_policy_init_own(struct dp_site_policy *s, const char *file, const char *arguments, double timeout_s,
                            struct dp_err *err)
{
    if (strlen(file) >= sizeof s->file)
        return dp_err_set(err, DP_EINVAL, "policy %.64s...: the path is longer than %zu bytes", file, sizeof s->file - 1);
    if (strlen(arguments) >= sizeof s->arguments)
        return dp_err_set(err, DP_EINVAL, "policy %s: the arguments are longer than %zu bytes", file, sizeof s->arguments - 1);
    dp_site_policy_init(s, file, file, arguments, timeout_s);
    s->policy.name = s->file;
    s->is_own = true;
    return dp_site_policy_probe(s, err);
}

int dp_site_policy_probe(struct dp_site_policy *s, struct dp_err *err)
{
    if (ask(s, NULL, NULL, err) < 0)
        return dp_err_prefix(err, "policy %s", s->policy.name);
    return 0;
}
