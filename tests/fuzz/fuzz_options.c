/* SPDX-License-Identifier: BSD-3-Clause */
/* What reaches the plugin inside slurmstepd: values of options, the line that carries them, the node's
 * name, and the arguments of plugstack.conf. The first byte of an input says which. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#include "common/conf/plugin_args.h"
#include "common/slurm/node_name.h"

const char fuzz_name[] = "fuzz_options";

static struct dp_plugin_args defaults(void)
{
    struct dp_plugin_args args;

    (void)dp_plugin_args_parse(0, NULL, &args, NULL);
    return args;
}

static void check_printable(const char *text)
{
    for (; *text; text++)
        if (*text < 0x20 || *text > 0x7e)
            fuzz_die("a message to the user holds a byte that he chose and that is not printable");
}

static void read_value(uint32_t which, const char *text)
{
    const struct dp_option_def *def = &dp_option_defs[which % DP_OPTION_COUNT];
    const struct dp_plugin_args args = defaults();
    struct dp_msg_step_start o = {0};
    struct dp_err err = {0};
    char spec[DP_SPEC_MAX];

    if (dp_option_set(&o, def, text, &args, &err) < 0)
        check_printable(err.text);
    else if (dp_options_format(&o, spec, sizeof spec) < 0)
        fuzz_die("options that were accepted do not fit into their text");
}

static void read_spec(const char *text)
{
    const struct dp_plugin_args args = defaults();
    struct dp_msg_step_start o, again;
    struct dp_err err = {0};
    char spec[DP_SPEC_MAX];

    if (dp_options_parse(text, &args, &o, &err) < 0) {
        check_printable(err.text);
        return;
    }
    if (dp_options_format(&o, spec, sizeof spec) < 0 || dp_options_parse(spec, &args, &again, NULL) < 0 ||
        memcmp(&o, &again, sizeof o))
        fuzz_die("options do not read back from their own text");
}

static void read_args(char *text)
{
    struct dp_plugin_args args;
    char *argv[8], path[108];
    int argc = 0;

    for (char *p = text; p && argc < 8; argc++) {
        argv[argc] = p;
        p = strchr(p, ' ');
        if (p)
            *p++ = '\0';
    }
    (void)dp_plugin_args_parse(argc, argv, &args, NULL);
    (void)dp_socket_path(args.socket, "n0", path, sizeof path, NULL);
    (void)dp_is_node_name(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char text[8192];

    if (bytes < 1 || bytes > sizeof text)
        return 0;
    memcpy(text, data + 1, bytes - 1);
    text[bytes - 1] = '\0';
    if (data[0] == 's')
        read_spec(text);
    else if (data[0] == 'a')
        read_args(text);
    else
        read_value(data[0], text);
    return 0;
}

void fuzz_make_seeds(void)
{
    static const char *const values[] = {"release", "time", "2", "2.5", "best", "30", "40", "4", "8", "1"};
    const struct dp_msg_step_start all = {.options_set = 1023, .mode = DP_MODE_RELEASE, .reference = DP_REF_BEST, .min_gpus = 2,
                                   .max_slowdown = 2.5, .stall_end_s = 30 * 60, .memory = 40, .slices = 4, .max_gpus = 8, .copies = 1,
                                   .policy = "time"};
    char spec[DP_SPEC_MAX + 1] = "s";

    for (uint32_t i = 0; i < DP_OPTION_COUNT; i++) {
        char text[16];

        snprintf(text, sizeof text, "%c%s", (char)(5 + i), values[i]); /* 5 + i: option i */
        fuzz_seed_text(text);
    }
    if (dp_options_format(&all, spec + 1, sizeof spec - 1) < 0)
        fuzz_die("a seed cannot be written");
    fuzz_seed_text(spec);
    fuzz_seed_text("smode=observe");
    fuzz_seed_text("asocket=/run/dynpipe/%n.sock policies=keep,time default_mode=observe");
}
