/* SPDX-License-Identifier: BSD-3-Clause */
/* See nvml.h. Cards are told apart by the minor number of their device file, which is what gres.conf names and what the
 * proof of open files looks at; indices of the library are its own.
 *
 * Lists of processes: version 2 before version 3, because drivers R535 before 535.98 write longer entries for the number 3
 * than those before and after them. The buffer has room for those, too, so that nothing is written beyond it.
 */
#include "config.h"

#include "daemon/release/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"
#define CARD_MAJOR 195u   /* of NVIDIA's device files, given out by the kernel's list of numbers */
#define FIRST_OTHER 254u  /* nvidia-modeset and nvidiactl, which are no cards */
#define INDICES_MAX 256u  /* of cards that the library may have, ours or not */
#define LIST_MAX 256u     /* entries of a list of processes */
#define ENTRY_BYTES_MAX 64u /* room for longer entries than are documented */

/* What a call returns. */
enum { OK = 0, NOT_SUPPORTED = 3 };

struct memory {
    unsigned long long total, free, used;
};
struct process_v1 {
    unsigned pid;
    unsigned long long used;
};
struct process_v2 {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct memory) == 24 && sizeof(struct process_v1) == 16 && sizeof(struct process_v2) == 24 &&
                   offsetof(struct process_v2, used) == 8 && offsetof(struct process_v2, gpu_instance) == 16,
               "structs of the documented interface");

typedef int (*list_fn)(void *card, unsigned *n, void *entries);

static struct {
    void *library;
    bool is_begun;
    int (*begin)(void);
    int (*end)(void);
    int (*count)(unsigned *);
    int (*card)(unsigned, void **);
    int (*minor)(void *, unsigned *);
    int (*memory)(void *, struct memory *);
    int (*mig)(void *, unsigned *now, unsigned *next); /* NULL: a driver that cuts no card into parts */
    int (*numa)(void *, unsigned *);                   /* NULL: of a time before such cards */
    const char *(*error)(int);
    struct {
        list_fn fn; /* NULL: not asked for */
        size_t stride;
    } list[3];
} nvml;

static const struct {
    const char *name;
    size_t at;
    bool is_needed;
} symbols[] = {
#define AT(member) offsetof(__typeof__(nvml), member)
    {"nvmlInit_v2", AT(begin), true},
    {"nvmlShutdown", AT(end), true},
    {"nvmlDeviceGetCount_v2", AT(count), true},
    {"nvmlDeviceGetHandleByIndex_v2", AT(card), true},
    {"nvmlDeviceGetMinorNumber", AT(minor), true},
    {"nvmlDeviceGetMemoryInfo", AT(memory), true},
    {"nvmlDeviceGetMigMode", AT(mig), false},
    {"nvmlDeviceGetNumaNodeId", AT(numa), false},
    {"nvmlErrorString", AT(error), false},
};

/* Who computes on a card, who draws, and the clients of MPS. The first one is needed. */
static const char *const lists[] = {"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses",
                                    "nvmlDeviceGetMPSComputeRunningProcesses"};
static const struct {
    const char *suffix;
    size_t stride;
} versions[] = {{"_v2", sizeof(struct process_v2)}, {"_v3", sizeof(struct process_v2)}, {"", sizeof(struct process_v1)}};

static bool is_card(const struct dp_device_files *files, uint32_t i)
{
    return files->number[i][0] == CARD_MAJOR && files->number[i][1] < FIRST_OTHER;
}

bool dp_nvml_has_card(const struct dp_device_files *files, uint32_t minor)
{
    for (uint32_t i = 0; i < files->n; i++)
        if (is_card(files, i) && files->number[i][1] == minor)
            return true;
    return false;
}

bool dp_nvml_has_any(const struct dp_device_files *files)
{
    for (uint32_t i = 0; i < files->n; i++)
        if (is_card(files, i))
            return true;
    return false;
}

const char *dp_nvml_library(void)
{
    const char *path = getenv("LD_LIBRARY_PATH");

    return path && path[0] ? "" : LIBRARY;
}

/* ---- the library ---- */

static bool find_list(size_t i)
{
    char name[80];

    for (size_t v = 0; v < sizeof versions / sizeof versions[0] && !nvml.list[i].fn; v++) {
        void *found;

        snprintf(name, sizeof name, "%s%s", lists[i], versions[v].suffix);
        found = dlsym(nvml.library, name);
        memcpy(&nvml.list[i].fn, &found, sizeof found);
        nvml.list[i].stride = versions[v].stride;
    }
    return nvml.list[i].fn != NULL;
}

/* returns: what is needed and not there, NULL: nothing. */
static const char *find_symbols(void)
{
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(nvml.library, symbols[i].name);

        if (!found && symbols[i].is_needed)
            return symbols[i].name;
        memcpy((char *)&nvml + symbols[i].at, &found, sizeof found);
    }
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (!find_list(i) && i == 0)
            return lists[i];
    return NULL;
}

static bool open_library(const char *library, struct dp_cards *out)
{
    const char *lacks;

    out->state = DP_CARDS_NONE;
    if (!nvml.library)
        nvml.library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!nvml.library) {
        snprintf(out->text, sizeof out->text, "%s", dlerror());
        return false;
    }
    lacks = find_symbols();
    if (lacks)
        snprintf(out->text, sizeof out->text, "%.80s has no %s", library, lacks);
    return !lacks;
}

/* ---- a card ---- */

static bool failed(struct dp_cards *out, const char *what, int rc)
{
    out->state = DP_CARDS_FAILED;
    snprintf(out->text, sizeof out->text, "%s: error %d (%.60s)", what, rc, nvml.error ? nvml.error(rc) : "");
    return false;
}

static bool add_pid(struct dp_gpu *card, uint32_t pid)
{
    for (uint32_t i = 0; i < card->n_pids; i++)
        if (card->pid[i] == pid)
            return true;
    if (card->n_pids == DP_CARD_PIDS)
        return false;
    card->pid[card->n_pids++] = pid;
    return true;
}

/* An entry without a number is not one that we can read: of a driver with other entries, or of another space of pids. */
static bool add_list(void *handle, size_t i, struct dp_gpu *card, struct dp_cards *out)
{
    static uint64_t room[LIST_MAX * ENTRY_BYTES_MAX / sizeof(uint64_t)];
    unsigned n = LIST_MAX;
    char what[96];
    int rc;

    memset(room, 0, sizeof room);
    rc = nvml.list[i].fn(handle, &n, room);
    card->is_unseen |= rc == NOT_SUPPORTED && i == 0;
    if (rc == NOT_SUPPORTED)
        return true;
    snprintf(what, sizeof what, "nvidia%u: %s", card->minor, lists[i]);
    if (rc != OK || n > LIST_MAX)
        return failed(out, what, rc);
    for (unsigned k = 0; k < n; k++) {
        uint32_t pid;

        memcpy(&pid, (const char *)room + k * nvml.list[i].stride, sizeof pid);
        if (pid && add_pid(card, pid))
            continue;
        out->state = DP_CARDS_FAILED;
        snprintf(out->text, sizeof out->text, pid ? "nvidia%u: more than %d processes" : "nvidia%u: a process without a number, of %d",
                 card->minor, pid ? DP_CARD_PIDS : (int)n);
        return false;
    }
    return true;
}

static bool add_pids(void *handle, struct dp_gpu *card, struct dp_cards *out)
{
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (nvml.list[i].fn && !add_list(handle, i, card, out))
            return false;
    return true;
}

static bool look_at(void *handle, struct dp_gpu *card, struct dp_cards *out)
{
    unsigned now = 0, next = 0, node;
    struct memory memory = {0};
    char what[64];
    int rc;

    rc = nvml.mig ? nvml.mig(handle, &now, &next) : NOT_SUPPORTED;
    if (rc != OK && rc != NOT_SUPPORTED) {
        snprintf(what, sizeof what, "nvidia%u: nvmlDeviceGetMigMode", card->minor);
        return failed(out, what, rc);
    }
    card->is_unseen = rc == OK && now != 0;
    if (card->is_unseen)
        return true;
    card->is_hosts = nvml.numa && nvml.numa(handle, &node) == OK;
    if (!add_pids(handle, card, out))
        return false;
    rc = nvml.memory(handle, &memory);
    if (rc != OK) {
        snprintf(what, sizeof what, "nvidia%u: nvmlDeviceGetMemoryInfo", card->minor);
        return failed(out, what, rc);
    }
    card->used = memory.used;
    return add_pids(handle, card, out);
}

static bool look_at_all(const struct dp_device_files *files, struct dp_cards *out)
{
    unsigned n = 0, minor = 0;
    void *handle;
    int rc;

    if (!nvml.is_begun && (rc = nvml.begin()) != OK) {
        failed(out, "nvmlInit_v2", rc);
        out->state = DP_CARDS_SHUT;
        return false;
    }
    nvml.is_begun = true;
    if ((rc = nvml.count(&n)) != OK)
        return failed(out, "nvmlDeviceGetCount_v2", rc);
    for (unsigned i = 0; i < n && i < INDICES_MAX && out->n < DP_CARDS_MAX; i++) {
        if ((rc = nvml.card(i, &handle)) != OK)
            return failed(out, "nvmlDeviceGetHandleByIndex_v2", rc);
        if ((rc = nvml.minor(handle, &minor)) != OK)
            return failed(out, "nvmlDeviceGetMinorNumber", rc);
        if (!dp_nvml_has_card(files, minor))
            continue;
        out->card[out->n].minor = minor;
        if (!look_at(handle, &out->card[out->n], out))
            return false;
        out->n++;
    }
    out->state = DP_CARDS_SEEN;
    return true;
}

void dp_nvml_look(const char *library, const struct dp_device_files *files, struct dp_cards *out)
{
    memset(out, 0, sizeof *out);
    if (!open_library(library, out) || look_at_all(files, out))
        return;
    out->n = 0;
    if (nvml.is_begun)
        nvml.end();
    nvml.is_begun = false;
}
