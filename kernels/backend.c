/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening a backend by name.
 *
 * The CPU backend is linked in. Any other is a shared object libdynpipe-NAME.so, loaded when asked
 * for, so that a build without CUDA and a machine without a GPU pay nothing for it. It exports the
 * versioned symbol dp_backend_v1, a struct dp_backend_ops.
 */
#include "config.h" /* GNU's secure_getenv */

#include "kernels/backend.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file/trusted_file.h"
#include "kernels/cpu/cpu.h"

#define OPS_SYMBOL "dp_backend_v1"
#define PLUGIN_VARIABLE "DYNPIPE_CUDA_PLUGIN" /* an absolute path */

/* A backend and the shared object that it came from, NULL for the CPU. */
struct opened {
    struct dp_backend be; /* first: a struct dp_backend * is a struct opened * */
    void *library;
};

/* The file that the environment names, for who tries out a build; not for a program with more rights than its caller,
 * nor a file that somebody else could have put there. */
static void *open_named(const char *name, const char *path, struct dp_err *err)
{
    void *library;

    if (dp_trusted_file_check(path, err) < 0) {
        dp_err_prefix(err, "backend %s: " PLUGIN_VARIABLE, name);
        return NULL;
    }
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        dp_err_set(err, DP_ENOTSUP, "backend %s: " PLUGIN_VARIABLE ": %s", name, dlerror());
    return library;
}

/* libdynpipe-NAME.so from where `make install` puts it, else from the loader's path. path: = what was opened. */
static void *open_installed(const char *name, char *path, size_t cap, struct dp_err *err)
{
    char installed[256] = "";
    void *library;

    snprintf(path, cap, "%s/libdynpipe-%s.so", DP_PLUGIN_DIR, name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return library;
    if (access(path, F_OK) == 0) /* it is there: what is wrong with it counts */
        snprintf(installed, sizeof installed, "%s", dlerror());
    snprintf(path, cap, "libdynpipe-%s.so", name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return library;
    if (installed[0])
        dp_err_set(err, DP_ENOTSUP, "backend %s cannot be loaded: %s", name, installed);
    else
        dp_err_set(err, DP_ENOTSUP,
                   "backend %s is not installed: no %s in " DP_PLUGIN_DIR " or on the library path (%s)", name, path,
                   dlerror());
    return NULL;
}

static const struct dp_backend_ops *load_ops(const char *name, void **library, struct dp_err *err)
{
    const char *named = secure_getenv(PLUGIN_VARIABLE);
    const struct dp_backend_ops *ops;
    char path[4096];

    if (named && *named) {
        snprintf(path, sizeof path, "%s", named);
        *library = open_named(name, named, err);
    } else {
        *library = open_installed(name, path, sizeof path, err);
    }
    if (!*library)
        return NULL;
    ops = dlsym(*library, OPS_SYMBOL);
    if (!ops) {
        dp_err_set(err, DP_ENOTSUP, "backend %s: %s has no symbol " OPS_SYMBOL, name, path);
        return NULL;
    }
    if (ops->abi != DP_BACKEND_ABI) {
        dp_err_set(err, DP_ENOTSUP, "backend %s: %s has interface %u, this program needs %u", name, path,
                   ops->abi, DP_BACKEND_ABI);
        return NULL;
    }
    return ops;
}

static const struct dp_backend_ops *find_ops(const char *name, void **library, struct dp_err *err)
{
    if (!strcmp(name, "cpu"))
        return dp_cpu_ops(NULL, err);
    if (!strncmp(name, "cpu:", 4))
        return dp_cpu_ops(name + 4, err);
    if (!strcmp(name, "cuda"))
        return load_ops(name, library, err);
    dp_err_set(err, DP_EINVAL, "unknown backend '%s'; known: cpu, cuda", name);
    return NULL;
}

struct dp_backend *dp_backend_create(const char *name, int worker, int threads, struct dp_err *err)
{
    struct opened *o = calloc(1, sizeof *o);

    if (!o) {
        dp_err_set(err, DP_ENOMEM, "backend %s: out of memory", name);
        return NULL;
    }
    o->be.ops = find_ops(name, &o->library, err);
    if (!o->be.ops)
        goto fail;
    if (o->be.ops->open(&o->be, worker, threads, err) < 0) {
        dp_err_prefix(err, "backend %s", name);
        goto fail;
    }
    if (o->be.ops->info(&o->be, &o->be.info, err) < 0) {
        dp_err_prefix(err, "backend %s", name);
        o->be.ops->close(&o->be);
        goto fail;
    }
    return &o->be;
fail:
    if (o->library)
        dlclose(o->library);
    free(o);
    return NULL;
}

void dp_backend_destroy(struct dp_backend *be)
{
    struct opened *o = (struct opened *)be;

    if (!o)
        return;
    o->be.ops->close(&o->be);
    if (o->library)
        dlclose(o->library);
    free(o);
}
