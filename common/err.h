/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors as values: a code for the program, a text for the person.
 *
 * Every function that can fail returns 0 / -1 (or pointer / NULL) and takes a caller-owned
 * `struct dp_err *err`, which may be NULL. Whoever notices first writes the text with the values
 * that matter; callers only add a prefix; the top prints it once.
 */
#ifndef DP_COMMON_ERR_H
#define DP_COMMON_ERR_H

enum dp_errcode {
    DP_OK = 0,
    DP_EINVAL,   /* bad argument, option or configuration */
    DP_EIO,      /* file or socket failed */
    DP_EPROTO,   /* bytes that do not follow doc/protocol.md */
    DP_EAUTH,    /* not allowed */
    DP_ENOMEM,   /* memory or another resource is exhausted */
    DP_ETIMEOUT, /* a deadline passed */
    DP_EGONE,    /* the peer went away */
    DP_EHUNGUP,  /* the peer closed the connection before it answered: another try may go better */
    DP_ECORRUPT, /* a checksum does not match */
    DP_ENOTSUP,  /* this build or machine cannot do it */
};

struct dp_err {
    enum dp_errcode code;
    char text[1024];
};

/* Overwrite *err (NULL is fine). returns: always -1, so that `return dp_err_set(...)` reads well. */
int dp_err_set(struct dp_err *err, enum dp_errcode code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Put "prefix: " before the text that is already there. returns: always -1. */
int dp_err_prefix(struct dp_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
