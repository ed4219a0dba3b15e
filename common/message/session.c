/* SPDX-License-Identifier: BSD-3-Clause */
/* See session.h. Why not a munge credential per message, as Slurm does: 190 us each
 * and a call that can hang, and its replay protection is per munged, so one credential is good once
 * on every node. Here munge vouches once for a key; the fresh nonce, the receiver's name and the
 * counters then bind every frame to this connection, this direction and this place in the order,
 * and nothing has to be remembered across a restart.
 */
#include "config.h"

#include "common/message/session.h"

#include <errno.h>
#include <munge.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>

#include "common/wire.h"

#define SEAL_MAGIC 0x44505341u /* "DPSA" */
#define SEAL_MAX 512 /* two names of 63 bytes and the rest take 201 */
#define CREDENTIAL_TTL_S 60 /* seconds: it is looked at at once, but munge compares the clocks of two nodes */

int dp_random(void *out, size_t bytes, struct dp_err *err)
{
    if (getrandom(out, bytes, 0) != (ssize_t)bytes)
        return dp_err_set(err, DP_EIO, "getrandom: %s", strerror(errno));
    return 0;
}

/* Behind 24 random bytes: the mark, and the version u16. One nonce in 2^48 of an acceptor that knows nothing of it
 * looks so by chance: he refuses the answer, and the next nonce is another one. */
static const uint8_t version_mark[] = {'D', 'P', 'v', 'e', 'r', 's'};
#define MARK_AT (DP_DIGEST_BYTES - sizeof version_mark - 2)

int dp_challenge_init(struct dp_msg_challenge *challenge, struct dp_err *err)
{
    if (dp_random(challenge->nonce, MARK_AT, err) < 0)
        return -1;
    memcpy(challenge->nonce + MARK_AT, version_mark, sizeof version_mark);
    challenge->nonce[DP_DIGEST_BYTES - 2] = DP_PROTO_VERSION >> 8;
    challenge->nonce[DP_DIGEST_BYTES - 1] = DP_PROTO_VERSION & 0xff;
    return 0;
}

static uint16_t version_of(const dp_digest_t nonce)
{
    if (memcmp(nonce + MARK_AT, version_mark, sizeof version_mark) != 0)
        return DP_PROTO_MIN;
    return dp_proto_agree((uint16_t)(nonce[DP_DIGEST_BYTES - 2] << 8 | nonce[DP_DIGEST_BYTES - 1]));
}

int dp_handshake_init(struct dp_handshake *hs, enum dp_purpose purpose, const char *connector,
                      const struct dp_msg_challenge *challenge, struct dp_err *err)
{
    memset(hs, 0, sizeof *hs);
    hs->version = version_of(challenge->nonce);
    if (!hs->version)
        return dp_err_set(err, DP_EPROTO, "it speaks no protocol version known here");
    hs->purpose = (uint8_t)purpose;
    memcpy(hs->nonce, challenge->nonce, sizeof hs->nonce);
    snprintf(hs->connector, sizeof hs->connector, "%s", connector);
    snprintf(hs->acceptor, sizeof hs->acceptor, "%s", challenge->node);
    return dp_random(hs->key, sizeof hs->key, err);
}

static size_t seal_encode(const struct dp_handshake *hs, uint8_t out[SEAL_MAX])
{
    struct dp_writer w;

    dp_writer_init(&w, out, SEAL_MAX);
    dp_wr_u32(&w, SEAL_MAGIC);
    dp_wr_u16(&w, hs->version);
    dp_wr_u8(&w, hs->purpose);
    dp_wr_bytes(&w, hs->nonce, sizeof hs->nonce);
    dp_wr_bytes(&w, hs->key, sizeof hs->key);
    dp_wr_str(&w, hs->connector);
    dp_wr_str(&w, hs->acceptor);
    return dp_writer_used(&w);
}

static int seal_decode(const void *data, size_t bytes, struct dp_handshake *hs, struct dp_err *err)
{
    struct dp_reader r;
    uint32_t magic;

    memset(hs, 0, sizeof *hs);
    dp_reader_init(&r, data, bytes);
    magic = dp_rd_u32(&r);
    hs->version = dp_rd_u16(&r);
    hs->purpose = dp_rd_u8(&r);
    dp_rd_bytes(&r, hs->nonce, sizeof hs->nonce);
    dp_rd_bytes(&r, hs->key, sizeof hs->key);
    dp_rd_str(&r, hs->connector, sizeof hs->connector);
    dp_rd_str(&r, hs->acceptor, sizeof hs->acceptor);
    if (!dp_reader_at_end(&r) || magic != SEAL_MAGIC || dp_proto_agree(hs->version) != hs->version)
        return dp_err_set(err, DP_EAUTH, "credential does not hold a handshake of this version");
    if (hs->purpose != DP_PURPOSE_PEER && hs->purpose != DP_PURPOSE_CLI)
        return dp_err_set(err, DP_EAUTH, "credential of unknown purpose %u", hs->purpose);
    return 0;
}

static munge_ctx_t make_context(const char *munge_socket, struct dp_err *err)
{
    munge_ctx_t ctx = munge_ctx_create();

    if (!ctx)
        dp_err_set(err, DP_ENOMEM, "munge: out of memory");
    else if (munge_socket && munge_socket[0] &&
             munge_ctx_set(ctx, MUNGE_OPT_SOCKET, munge_socket) != EMUNGE_SUCCESS) {
        dp_err_set(err, DP_EINVAL, "munge socket %s: %s", munge_socket, munge_ctx_strerror(ctx));
        munge_ctx_destroy(ctx);
        ctx = NULL;
    }
    return ctx;
}

int dp_handshake_seal(const struct dp_handshake *hs, const char *munge_socket, uid_t reader, char *out,
                      size_t cap, struct dp_err *err)
{
    uint8_t payload[SEAL_MAX];
    size_t bytes = seal_encode(hs, payload);
    munge_ctx_t ctx = make_context(munge_socket, err);
    char *credential = NULL;
    int rc = -1;

    if (!ctx)
        return -1;
    munge_ctx_set(ctx, MUNGE_OPT_TTL, CREDENTIAL_TTL_S);
    if (reader != DP_ANY_UID)
        munge_ctx_set(ctx, MUNGE_OPT_UID_RESTRICTION, reader);
    if (munge_encode(&credential, ctx, payload, (int)bytes) != EMUNGE_SUCCESS)
        dp_err_set(err, DP_EAUTH, "munge: %s", munge_ctx_strerror(ctx));
    else if (strlen(credential) >= cap)
        dp_err_set(err, DP_EAUTH, "munge: credential of %zu bytes", strlen(credential));
    else {
        memcpy(out, credential, strlen(credential) + 1);
        rc = 0;
    }
    OPENSSL_cleanse(payload, sizeof payload);
    free(credential);
    munge_ctx_destroy(ctx);
    return rc;
}

int dp_handshake_open(const char *credential, const char *munge_socket, struct dp_handshake *hs, uid_t *uid,
                      struct in_addr *sealed_at, struct dp_err *err)
{
    munge_ctx_t ctx = make_context(munge_socket, err);
    void *payload = NULL;
    int bytes = 0, rc = -1;
    munge_err_t e;
    gid_t gid;

    if (!ctx)
        return -1;
    /* Success alone counts: munge hands out the payload of expired and replayed credentials too. */
    e = munge_decode(credential, ctx, &payload, &bytes, uid, &gid);
    if (e == EMUNGE_CRED_UNAUTHORIZED)
        dp_err_set(err, DP_EAUTH, "sealed for another user than uid %u: is run_user the same on all nodes?", geteuid());
    else if (e != EMUNGE_SUCCESS)
        dp_err_set(err, DP_EAUTH, "munge: %s", munge_ctx_strerror(ctx));
    else
        rc = seal_decode(payload, bytes > 0 ? (size_t)bytes : 0, hs, err);
    if (rc == 0 && sealed_at && munge_ctx_get(ctx, MUNGE_OPT_ADDR4, sealed_at) != EMUNGE_SUCCESS)
        sealed_at->s_addr = 0;
    if (payload && bytes > 0)
        OPENSSL_cleanse(payload, (size_t)bytes);
    free(payload);
    munge_ctx_destroy(ctx);
    return rc;
}

int dp_handshake_check(const struct dp_handshake *hs, const struct dp_msg_challenge *challenge,
                       const char *auth_node, uint16_t auth_version, struct dp_err *err)
{
    if (!dp_digest_equal(hs->nonce, challenge->nonce))
        return dp_err_set(err, DP_EAUTH, "credential answers another challenge");
    if (strcmp(hs->acceptor, challenge->node))
        return dp_err_set(err, DP_EAUTH, "credential is for node %s, this is %s", hs->acceptor,
                          challenge->node);
    if (strcmp(hs->connector, auth_node))
        return dp_err_set(err, DP_EAUTH, "credential of node %s, sent as %s", hs->connector, auth_node);
    if (hs->version != auth_version)
        return dp_err_set(err, DP_EAUTH, "credential of protocol version %u, sent as %u", hs->version, auth_version);
    if ((hs->purpose == DP_PURPOSE_PEER) != (hs->connector[0] != '\0'))
        return dp_err_set(err, DP_EAUTH, "a daemon names its node, a command line does not");
    return 0;
}

static void hmac(const dp_digest_t key, const void *data, size_t bytes, dp_digest_t out)
{
    unsigned int len = DP_DIGEST_BYTES;

    HMAC(EVP_sha256(), key, DP_DIGEST_BYTES, data, bytes, out, &len);
}

/* HMAC(key, label || handshake without the key): labels keep the uses of one key apart. */
static void derive(const struct dp_handshake *hs, const char *label, dp_digest_t out)
{
    struct dp_handshake public_part = *hs;
    uint8_t text[SEAL_MAX + 32];
    size_t n = strlen(label) + 1;

    memset(public_part.key, 0, sizeof public_part.key);
    memcpy(text, label, n);
    n += seal_encode(&public_part, text + n);
    hmac(hs->key, text, n, out);
}

void dp_handshake_proof(const struct dp_handshake *hs, dp_digest_t proof)
{
    derive(hs, "dynpipe proof", proof);
}

void dp_session_init(struct dp_session *s, const struct dp_handshake *hs, bool is_acceptor)
{
    memset(s, 0, sizeof *s);
    derive(hs, "dynpipe connector to acceptor", is_acceptor ? s->key_in : s->key_out);
    derive(hs, "dynpipe acceptor to connector", is_acceptor ? s->key_out : s->key_in);
    derive(hs, "dynpipe seal to acceptor", is_acceptor ? s->seal_in : s->seal_out);
    derive(hs, "dynpipe seal to connector", is_acceptor ? s->seal_out : s->seal_in);
}

static void frame_tag(const dp_digest_t key, uint64_t seq, const uint8_t header[DP_HEADER_BYTES],
                      const void *body, size_t bytes, uint8_t tag[DP_TAG_BYTES])
{
    uint8_t text[8 + DP_HEADER_BYTES + DP_BODY_MAX];
    struct dp_writer w;

    dp_writer_init(&w, text, sizeof text);
    dp_wr_u64(&w, seq);
    dp_wr_bytes(&w, header, DP_HEADER_BYTES);
    dp_wr_bytes(&w, body, bytes);
    hmac(key, text, dp_writer_used(&w), tag);
}

void dp_session_sign(struct dp_session *s, const uint8_t header[DP_HEADER_BYTES], const void *body,
                     size_t bytes, uint8_t tag[DP_TAG_BYTES])
{
    frame_tag(s->key_out, s->seq_out++, header, body, bytes, tag);
}

int dp_session_verify(struct dp_session *s, const uint8_t header[DP_HEADER_BYTES], const void *body,
                      size_t bytes, const uint8_t tag[DP_TAG_BYTES], struct dp_err *err)
{
    dp_digest_t want;

    frame_tag(s->key_in, s->seq_in++, header, body, bytes, want);
    if (!dp_digest_equal(want, tag))
        return dp_err_set(err, DP_EAUTH, "frame %llu was changed, repeated or left out on the way",
                          (unsigned long long)(s->seq_in - 1));
    return 0;
}

/* ---- a run's key ---- */

#define GCM_TAG 16 /* bytes, the longest that GCM has */

static void seal_nonce(uint64_t number, uint8_t nonce[12])
{
    struct dp_writer w;

    dp_writer_init(&w, nonce, 12);
    dp_wr_u32(&w, 0);
    dp_wr_u64(&w, number);
}

static size_t seal_context(const uint32_t of[DP_SEAL_OF], uint8_t out[4 * DP_SEAL_OF])
{
    struct dp_writer w;

    dp_writer_init(&w, out, 4 * DP_SEAL_OF);
    for (int i = 0; i < DP_SEAL_OF; i++)
        dp_wr_u32(&w, of[i]);
    return dp_writer_used(&w);
}

int dp_session_seal(struct dp_session *s, const uint8_t key[DP_KEY_BYTES], const uint32_t of[DP_SEAL_OF],
                    uint8_t sealed[DP_SEALED_KEY_BYTES], struct dp_err *err)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    uint8_t nonce[12], context[4 * DP_SEAL_OF];
    size_t bytes = seal_context(of, context);
    struct dp_writer w;
    bool is_fine;
    int n;

    dp_writer_init(&w, sealed, 8);
    dp_wr_u64(&w, s->n_sealed);
    seal_nonce(s->n_sealed++, nonce);
    is_fine = ctx && EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, s->seal_out, nonce) == 1 &&
              EVP_EncryptUpdate(ctx, NULL, &n, context, (int)bytes) == 1 &&
              EVP_EncryptUpdate(ctx, sealed + 8, &n, key, (int)DP_KEY_BYTES) == 1 &&
              EVP_EncryptFinal_ex(ctx, sealed + 8 + n, &n) == 1 &&
              EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, GCM_TAG, sealed + 8 + DP_KEY_BYTES) == 1;
    EVP_CIPHER_CTX_free(ctx);
    return is_fine ? 0 : dp_err_set(err, DP_EIO, "the run's key cannot be sealed");
}

int dp_session_unseal(const struct dp_session *s, const uint8_t sealed[DP_SEALED_KEY_BYTES], const uint32_t of[DP_SEAL_OF],
                      uint8_t key[DP_KEY_BYTES], struct dp_err *err)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    uint8_t nonce[12], context[4 * DP_SEAL_OF], tag[GCM_TAG];
    size_t bytes = seal_context(of, context);
    struct dp_reader r;
    bool is_fine;
    int n;

    dp_reader_init(&r, sealed, 8);
    seal_nonce(dp_rd_u64(&r), nonce);
    memcpy(tag, sealed + 8 + DP_KEY_BYTES, sizeof tag);
    is_fine = ctx && EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, s->seal_in, nonce) == 1 &&
              EVP_DecryptUpdate(ctx, NULL, &n, context, (int)bytes) == 1 &&
              EVP_DecryptUpdate(ctx, key, &n, sealed + 8, (int)DP_KEY_BYTES) == 1 &&
              EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, sizeof tag, tag) == 1 &&
              EVP_DecryptFinal_ex(ctx, key + n, &n) == 1;
    EVP_CIPHER_CTX_free(ctx);
    if (!is_fine)
        OPENSSL_cleanse(key, DP_KEY_BYTES);
    return is_fine ? 0 : dp_err_set(err, DP_EAUTH, "the run's key was sealed for something else, or changed on the way");
}

bool dp_digest_equal(const dp_digest_t a, const dp_digest_t b)
{
    return CRYPTO_memcmp(a, b, DP_DIGEST_BYTES) == 0;
}
