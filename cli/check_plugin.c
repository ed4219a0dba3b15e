/* Is the plugin in plugstack.conf, as `optional`, there, and built for this Slurm? A `required` plugin
 * that fails drains nodes (slurm.md F8); one of another Slurm release is not loaded at all. */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/check.h"
#include "cli/json.h"
#include "cli/link.h"
#include "cli/probe.h"
#include "spank_plugin/options.h"

enum { MAX_DEPTH = 8 };

/* The line that names our plugin. */
struct found {
    bool is_found, is_required;
    char file[512], plugin[512];
    unsigned line;
    char unreadable[512]; /* a file of the stack that could not be read, empty: none */
    int n_args;
    char *args[16]; /* behind the plugin; owned */
};

static void read_file(const char *path, int depth, struct found *f);

/* "include PATTERN", relative to the folder of the file that says it. */
static void read_include(const char *from, const char *pattern, int depth, struct found *f)
{
    const char *slash = strrchr(from, '/');
    char full[1024];
    glob_t g;

    if (*pattern == '/' || !slash)
        snprintf(full, sizeof full, "%s", pattern);
    else
        snprintf(full, sizeof full, "%.*s/%s", (int)(slash - from), from, pattern);
    if (glob(full, 0, NULL, &g) != 0)
        return;
    for (size_t i = 0; i < g.gl_pathc; i++)
        read_file(g.gl_pathv[i], depth + 1, f);
    globfree(&g);
}

static void read_line(const char *path, unsigned number, char *line, int depth, struct found *f)
{
    char *rest = line, *word, *plugin;

    line[strcspn(line, "#\n")] = '\0';
    while ((word = strsep(&rest, " \t")) && !*word)
        ;
    while ((plugin = strsep(&rest, " \t")) && !*plugin)
        ;
    if (!word || !plugin)
        return;
    if (!strcmp(word, "include")) {
        read_include(path, plugin, depth, f);
    } else if (strstr(plugin, "spank_dynpipe") && !f->is_found) {
        f->is_found = true;
        f->is_required = !strcmp(word, "required");
        f->line = number;
        snprintf(f->file, sizeof f->file, "%s", path);
        snprintf(f->plugin, sizeof f->plugin, "%s", plugin);
        while ((word = strsep(&rest, " \t")) && f->n_args < 16) {
            if (*word)
                f->args[f->n_args++] = strdup(word);
        }
    }
}

static void read_file(const char *path, int depth, struct found *f)
{
    FILE *file = depth < MAX_DEPTH ? fopen(path, "re") : NULL;
    char *line = NULL;
    size_t cap = 0;

    if (!file) {
        snprintf(f->unreadable, sizeof f->unreadable, "%s: %s", path, strerror(errno));
        return;
    }
    for (unsigned n = 1; getline(&line, &cap, file) >= 0; n++)
        read_line(path, n, line, depth, f);
    free(line);
    fclose(file);
}

/* In the child: the version that the plugin was built for. Lazy binding: the symbols of slurmstepd are
 * not there, and none is called. */
static int read_version(void *arg, FILE *out)
{
    void *so = dlopen(arg, RTLD_LAZY | RTLD_LOCAL);
    const uint32_t *version = so ? dlsym(so, "plugin_version") : NULL;
    const char *type = so ? dlsym(so, "plugin_type") : NULL;

    if (!version || !type) {
        fprintf(stderr, "%s\n", so ? "no SPANK plugin" : dlerror());
        return 1;
    }
    fprintf(out, "%u", *version);
    return 0;
}

static void check_version(struct dp_check *c, const char *path)
{
    char *text = NULL, slurm[64];
    struct dp_err err;
    unsigned built, running;

    if (access(path, R_OK) < 0) {
        dp_check_note(c, DP_FIND_FAIL, "plugin", "install it on this node: `make install`, or the package",
                      "%s: %s", path, strerror(errno));
        return;
    }
    if (dp_probe(read_version, (void *)path, 5, &text, &err) < 0) {
        dp_check_note(c, DP_FIND_FAIL, "plugin", "build it again", "%s cannot be loaded: %s", path, err.text);
        return;
    }
    built = (unsigned)strtoul(text ? text : "", NULL, 10);
    free(text);
    running = dp_check_version(dp_json_text(slurm, sizeof slurm, c->slurm, "version", "0"));
    if (SLURM_VERSION_MAJOR(built) != running / 10000 || SLURM_VERSION_MINOR(built) != running / 100 % 100)
        dp_check_note(c, DP_FIND_FAIL, "plugin", "build DynPipe against the headers of this Slurm",
                      "%s is built for Slurm %u.%02u, this is %s", path, SLURM_VERSION_MAJOR(built),
                      SLURM_VERSION_MINOR(built), slurm);
    else
        dp_check_note(c, DP_FIND_OK, "plugin", NULL, "%s, for Slurm %u.%02u", path,
                      SLURM_VERSION_MAJOR(built), SLURM_VERSION_MINOR(built));
}

/* Slurm looks for a relative path in its plugin folders. */
static void full_path(const struct dp_check *c, const char *plugin, char *out, size_t cap)
{
    char dirs[1024], *rest = dirs, *dir;

    snprintf(out, cap, "%s", plugin);
    if (*plugin == '/')
        return;
    dp_json_text(dirs, sizeof dirs, c->slurm, "plugindir", "");
    while ((dir = strsep(&rest, ":"))) {
        snprintf(out, cap, "%s/%s", dir, plugin);
        if (access(out, F_OK) == 0)
            return;
    }
}

/* Does the plugin talk to the socket that the daemon listens on? */
static void check_arguments(struct dp_check *c, const struct found *f)
{
    struct dp_plugin_args args;
    struct dp_err err;
    char path[256];

    if (dp_plugin_args_parse(f->n_args, f->args, &args, &err) < 0) {
        dp_check_note(c, DP_FIND_FAIL, "plugstack", "correct the line", "%s:%u: %s", f->file, f->line, err.text);
        return;
    }
    if (!c->config || dp_socket_path(args.socket, dp_link_node(), path, sizeof path, NULL) < 0)
        return;
    if (strcmp(path, c->config->socket) != 0)
        dp_check_note(c, DP_FIND_FAIL, "socket",
                      "give both the same path: socket=... in plugstack.conf, daemon.socket in dynpipe.conf",
                      "the plugin talks to %s, dynpiped listens on %s", path, c->config->socket);
    else
        dp_check_note(c, DP_FIND_OK, "socket", NULL, "plugin and daemon agree on %s", path);
}

void dp_check_plugin(struct dp_check *c)
{
    struct found f = {0};
    char stack[512], path[1600];

    if (!c->slurm)
        return;
    read_file(dp_json_text(stack, sizeof stack, c->slurm, "plugstack", ""), 0, &f);
    if (!f.is_found) {
        dp_check_note(c, DP_FIND_FAIL, "plugstack",
                      "add the line `optional spank_dynpipe.so` there, on login and compute nodes",
                      "%s does not name spank_dynpipe.so%s%s", stack, *f.unreadable ? "; " : "", f.unreadable);
        return;
    }
    if (f.is_required)
        dp_check_note(c, DP_FIND_FAIL, "plugstack", "write `optional` instead of `required`",
                      "%s:%u: a required plugin that fails drains its node", f.file, f.line);
    else
        dp_check_note(c, DP_FIND_OK, "plugstack", NULL, "%s:%u: optional", f.file, f.line);
    full_path(c, f.plugin, path, sizeof path);
    check_version(c, path);
    check_arguments(c, &f);
    for (int i = 0; i < f.n_args; i++)
        free(f.args[i]);
}
