/* The inner loop of engine.py, for sums of float32: receives, adds and passes on the chunks of a round.
 *
 * compiled.py calls it, and says what may be done when. Names and rules are those of engine.py and connection.py, where
 * they are explained. One thread at a time calls; there is no Python in here, so the interpreter lock is not held.
 *
 * Neighbours are not trusted: whatever they send, only chunks, the arrays of the plan and our own state are written to.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#define VERSION 4                   /* compiled.py takes no other one */
#define SUM (1u << 31)              /* a header: 1 bit phase, 2 bits round, 29 bits chunk */
#define ROUND_SHIFT 29
#define ROUND_MASK 3u
#define CHUNK_MASK ((1u << ROUND_SHIFT) - 1)
#define HEADER_BYTES 4
#define FLOAT_BYTES 4
#define SCRATCH_BYTES (1 << 17)         /* it stays in a core's cache */
#define MESSAGES_PER_SEND 4
#define TURNS 8                     /* moves in a row without a look at what else has come */
#define EVENTS 64
#define ROOT (-1)                   /* in place of a connection with a parent */

/* What a step may end with. */
enum { QUIET, MOVED, CLOSED, CUT_OFF, MISFIT, REFUSED, NO_EPOLL };

/* compiled.py makes this, with arrays that it keeps. Those of the second part are written here and read there, where
 * `remaining` and `complete_s` are also set when a round begins. */
struct plan {
    int64_t connections, chunks, gates, buckets, epoll;
    int64_t least_awaited_bytes, most_awaited_bytes, buffer_share; /* as connection.py explains */
    const int32_t *sockets;         /* by connection */
    float *const *memory;           /* by chunk, as all down to `after` */
    const int64_t *floats;
    const int32_t *gate, *bucket;
    const int32_t *children;        /* partial sums that come */
    const int32_t *parent;          /* a connection; ROOT: the sum is made here; else ABSENT (forest.py) */
    const uint8_t *receives;        /* the sum comes back to this node */
    const uint8_t *takes_part;
    const int32_t *before, *after;  /* in a window: the chunk whose sum this one waits for, and the one that waits; or -1 */
    const int32_t *forward_from;    /* chunks + 1: where a chunk's part of `forward` begins */
    const int32_t *forward;         /* connections */
    const int32_t *leaves_from;     /* gates + 1: where a gate's part of `leaves` begins */
    const int32_t *leaves;          /* chunks that may leave once the gate is open */
    const int32_t *parts;           /* by bucket: chunks in which this node takes part */
    const int32_t *expected;        /* by connection: messages that come in this round */
    const int64_t *whole_bytes;     /* by connection: bytes before the last packet of an iteration, which stands alone */

    int32_t *received, *unsent;     /* by connection: messages */
    int64_t *sent_bytes;
    uint8_t *closed;
    int32_t *missing;               /* by bucket: chunks to come */
    double *bucket_complete_s;
    int64_t remaining;              /* chunks of the round */
    double complete_s;
    int64_t connection, chunk, error; /* what a step that failed is about */
};

struct connection {
    int socket;
    bool readable, writable, hung_up, held, has_word, admitted;
    uint32_t word;
    int64_t left;                   /* of the payload, in bytes */
    unsigned char header[HEADER_BYTES], carry[FLOAT_BYTES];
    int header_have, carried;
    int buffer_bytes, awaited_bytes;
    uint32_t *queue;                /* headers in the order of bytes on the wire: a ring, of messages to be sent */
    int64_t room, first, count, begun_bytes;
    int64_t uncut_bytes;            /* of `whole_bytes`, still to be sent in this round */
};

struct mover {
    struct plan *plan;
    struct connection *connections;
    int32_t *waiting, *unbegun;     /* by chunk: partial sums still to come as a whole, and of which nothing has come */
    uint8_t *done;                  /* by chunk: this node has finished with it, or has no part in it */
    uint8_t *sum_begun;             /* by chunk: some neighbour has begun to send its sum */
    uint8_t *is_summed, *parked;    /* by chunk: its sum is here; it waits for another's */
    uint8_t *open;                  /* by gate */
    uint32_t round;
    bool news;                      /* a bucket or all chunks have become complete */
    float scratch[SCRATCH_BYTES / FLOAT_BYTES];
};

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx2", "default")))
#endif
static void add(float *restrict ours, const float *restrict theirs, int64_t count) {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4
#endif
    for (int64_t i = 0; i < count; i++)
        ours[i] += theirs[i];
}

static int64_t payload_bytes(const struct mover *m, int64_t k) { return m->plan->floats[k] * FLOAT_BYTES; }

static int fails(struct mover *m, int how, int64_t connection, int64_t chunk, int error) {
    m->plan->connection = connection;
    m->plan->chunk = chunk;
    m->plan->error = error;
    return how;
}

/* Passing on. A chunk is pushed once up and once down in a round at most (`waiting`, `done`), so queues have room. */

static void push(struct mover *m, int32_t to, uint32_t word) {
    struct connection *c = &m->connections[to];
    c->queue[(c->first + c->count++) % c->room] = htonl(word);
    m->plan->unsent[to]++;
}

static void complete(struct mover *m, int64_t k) {
    struct plan *p = m->plan;
    int32_t bucket = p->bucket[k];
    m->done[k] = 1;
    if (--p->missing[bucket] == 0) {
        p->bucket_complete_s[bucket] = now_s();
        m->news = true;
    }
    if (--p->remaining == 0)
        p->complete_s = now_s();
}

static void send_up(struct mover *m, int64_t k) {
    const struct plan *p = m->plan;
    if (p->before[k] >= 0 && !m->is_summed[p->before[k]]) {
        m->parked[k] = 1;
        return;
    }
    push(m, p->parent[k], m->round << ROUND_SHIFT | (uint32_t)k);
    if (!p->receives[k])
        complete(m, k);
}

static void summed(struct mover *m, int64_t k) {
    const struct plan *p = m->plan;
    for (int32_t i = p->forward_from[k]; i < p->forward_from[k + 1]; i++)
        push(m, p->forward[i], SUM | m->round << ROUND_SHIFT | (uint32_t)k);
    complete(m, k);
    m->is_summed[k] = 1;
    if (p->after[k] >= 0 && m->parked[p->after[k]]) {
        m->parked[p->after[k]] = 0;
        send_up(m, p->after[k]);
    }
}

static void reduced(struct mover *m, int64_t k) {
    if (m->plan->parent[k] == ROOT)
        summed(m, k);
    else
        send_up(m, k);
}

/* Receiving. */

static void wake_at(const struct mover *m, struct connection *c, int64_t left) {
    const struct plan *p = m->plan;
    if (left > c->buffer_bytes / p->buffer_share) {
        socklen_t length = sizeof c->buffer_bytes;
        getsockopt(c->socket, SOL_SOCKET, SO_RCVBUF, &c->buffer_bytes, &length);
    }
    int64_t most = c->buffer_bytes / p->buffer_share;
    if (most > p->most_awaited_bytes)
        most = p->most_awaited_bytes;
    int awaited = (int)(left < most ? left : most);
    if (awaited < p->least_awaited_bytes)
        awaited = 1;
    if (awaited != c->awaited_bytes) {
        c->awaited_bytes = awaited;
        setsockopt(c->socket, SOL_SOCKET, SO_RCVLOWAT, &awaited, sizeof awaited);
    }
}

/* One system call into up to two buffers; bytes, 0 when nothing is there or at the stream's end, or -1: see errno. */
static int64_t receive(struct mover *m, int64_t from, struct iovec *into, int buffers) {
    struct connection *c = &m->connections[from];
    struct msghdr message = {.msg_iov = into, .msg_iovlen = (size_t)buffers};
    int64_t room = 0, count;
    for (int i = 0; i < buffers; i++)
        room += (int64_t)into[i].iov_len;
    do
        count = recvmsg(c->socket, &message, 0);
    while (count < 0 && errno == EINTR);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        c->readable = false;
        return 0;
    }
    if (count < 0 && (errno == ECONNRESET || errno == ECONNREFUSED || errno == ECONNABORTED || errno == EPIPE))
        count = 0;
    if (count == 0) {
        m->plan->closed[from] = 1;
        c->readable = false;
    } else if (count > 0 && count < room && !c->hung_up) {
        c->readable = false;
    }
    return count;
}

/* Read up to `room` bytes of the payload into `to`, and the next header if the payload ends there; payload bytes, or
 * -1: see errno. */
static int64_t read_payload(struct mover *m, int64_t from, void *to, int64_t room) {
    struct connection *c = &m->connections[from];
    struct iovec into[2] = {{to, (size_t)room}, {c->header, HEADER_BYTES}};
    int64_t count = receive(m, from, into, room == c->left ? 2 : 1);
    if (count < 0)
        return -1;
    int64_t payload = count < room ? count : room;
    c->header_have = (int)(count - payload);
    c->left -= payload;
    if (!c->readable)
        wake_at(m, c, c->left);
    return payload;
}

/* Read some of a partial sum, and add the floats that are there as a whole to ours; bytes, or -1: see errno. */
static int64_t read_and_add(struct mover *m, int64_t from, int64_t k) {
    struct connection *c = &m->connections[from];
    unsigned char *scratch = (unsigned char *)m->scratch;
    int64_t at = (payload_bytes(m, k) - c->left - c->carried) / FLOAT_BYTES;
    int64_t room = c->left < SCRATCH_BYTES - c->carried ? c->left : SCRATCH_BYTES - c->carried;
    memcpy(scratch, c->carry, (size_t)c->carried);
    int64_t count = read_payload(m, from, scratch + c->carried, room);
    if (count < 0)
        return -1;
    int64_t floats = (c->carried + count) / FLOAT_BYTES;
    c->carried = (int)(c->carried + count - floats * FLOAT_BYTES);
    memcpy(c->carry, scratch + floats * FLOAT_BYTES, (size_t)c->carried);
    add(m->plan->memory[k] + at, m->scratch, floats);
    return count;
}

/* Whether a header is there; -1: see errno. */
static int read_header(struct mover *m, int64_t from) {
    struct connection *c = &m->connections[from];
    if (c->header_have < HEADER_BYTES) {
        struct iovec into = {c->header + c->header_have, (size_t)(HEADER_BYTES - c->header_have)};
        int64_t count = receive(m, from, &into, 1);
        if (count < 0)
            return -1;
        c->header_have += (int)count;
        if (!c->readable)
            wake_at(m, c, 0);
    }
    if (c->header_have < HEADER_BYTES)
        return 0;
    memcpy(&c->word, c->header, HEADER_BYTES);
    c->word = ntohl(c->word);
    c->header_have = 0;
    c->has_word = true;
    return 1;
}

/* Begin to take the message whose header is there. QUIET: it is of the next round, or its gate is still closed. What two
 * neighbours begin before either ends is counted here, so no more messages of a chunk end than are expected. */
static int admit(struct mover *m, int64_t from) {
    struct connection *c = &m->connections[from];
    const struct plan *p = m->plan;
    int64_t k = c->word & CHUNK_MASK;
    if (k >= p->chunks)
        return fails(m, MISFIT, from, k, 0);
    if ((c->word >> ROUND_SHIFT & ROUND_MASK) != m->round || !m->open[p->gate[k]]) {
        c->held = true;
        return QUIET;
    }
    if (c->word & SUM ? m->sum_begun[k] || !p->receives[k] || p->parent[k] == ROOT : m->unbegun[k] == 0)
        return fails(m, MISFIT, from, k, 0);
    if (c->word & SUM)
        m->sum_begun[k] = 1;
    else
        m->unbegun[k]--;
    c->admitted = true;
    c->left = payload_bytes(m, k);
    c->carried = 0;
    return MOVED;
}

static void finish_message(struct mover *m, int64_t from, int64_t k) {
    struct connection *c = &m->connections[from];
    bool is_sum = c->word & SUM;
    c->has_word = c->admitted = false;
    m->plan->received[from]++;
    if (is_sum)
        summed(m, k);
    else if (--m->waiting[k] == 0)
        reduced(m, k);
}

/* Read the next header, or more of its payload. */
static int take(struct mover *m, int64_t from) {
    struct connection *c = &m->connections[from];
    struct plan *p = m->plan;
    if (!c->has_word) {
        int is_there = read_header(m, from);
        if (is_there < 0)
            return fails(m, REFUSED, from, 0, errno);
        if (!is_there)
            return p->closed[from] && p->received[from] < p->expected[from] ? fails(m, CLOSED, from, 0, 0) : QUIET;
    }
    if (!c->admitted) {
        int how = admit(m, from);
        if (how != MOVED)
            return how;
    }
    int64_t k = c->word & CHUNK_MASK, count = 0;
    bool came = c->left == 0;
    if (c->left) {
        char *end = (char *)m->plan->memory[k] + payload_bytes(m, k);
        count = c->word & SUM ? read_payload(m, from, end - c->left, c->left) : read_and_add(m, from, k);
        if (count < 0)
            return fails(m, REFUSED, from, 0, errno);
        came = count > 0;
    }
    if (c->left == 0)
        finish_message(m, from, k);
    else if (p->closed[from])
        return fails(m, CUT_OFF, from, 0, 0);
    return came ? MOVED : QUIET;
}

/* Sending. */

/* What is still to be sent of the first messages, as buffers; how many. */
static int gather(struct mover *m, struct connection *c, struct iovec *from, int64_t *bytes) {
    int buffers = 0;
    int64_t skip = c->begun_bytes;
    *bytes = 0;
    for (int64_t i = 0; i < c->count && i < MESSAGES_PER_SEND; i++) {
        uint32_t *word = &c->queue[(c->first + i) % c->room];
        int64_t k = ntohl(*word) & CHUNK_MASK;
        char *parts[] = {(char *)word, (char *)m->plan->memory[k]};
        int64_t lengths[] = {HEADER_BYTES, payload_bytes(m, k)};
        for (int part = 0; part < 2; part++) {
            int64_t before = skip < lengths[part] ? skip : lengths[part];
            skip -= before;
            if (before < lengths[part])
                from[buffers++] = (struct iovec){parts[part] + before, (size_t)(lengths[part] - before)};
            *bytes += lengths[part] - before;
        }
    }
    return buffers;
}

/* Leave the first `bytes` of the buffers, which have as many; how many buffers. */
static size_t shorten(struct iovec *buffers, int64_t bytes) {
    size_t i = 0;
    for (; bytes > (int64_t)buffers[i].iov_len; i++)
        bytes -= (int64_t)buffers[i].iov_len;
    buffers[i].iov_len = (size_t)bytes;
    return i + 1;
}

/* Hand some of what is queued to the kernel, with one system call. What is sent after MSG_EOR is in another packet than
 * what was sent before. */
static int flush(struct mover *m, int64_t to) {
    struct connection *c = &m->connections[to];
    struct iovec from[2 * MESSAGES_PER_SEND];
    struct msghdr message = {.msg_iov = from};
    int64_t bytes, count;
    int flags = MSG_NOSIGNAL;
    if (m->plan->closed[to])
        return fails(m, CLOSED, to, 0, 0);
    message.msg_iovlen = (size_t)gather(m, c, from, &bytes);
    if (c->uncut_bytes > 0 && c->uncut_bytes <= bytes) {
        bytes = c->uncut_bytes;
        message.msg_iovlen = shorten(from, bytes);
        flags |= MSG_EOR;
    }
    do
        count = sendmsg(c->socket, &message, flags);
    while (count < 0 && errno == EINTR);
    if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        return fails(m, REFUSED, to, 0, errno);
    if (count < bytes)
        c->writable = false;
    if (count <= 0)
        return QUIET;
    m->plan->sent_bytes[to] += count;
    c->uncut_bytes -= count;
    c->begun_bytes += count;
    while (c->count) {
        int64_t message_bytes = HEADER_BYTES + payload_bytes(m, ntohl(c->queue[c->first % c->room]) & CHUNK_MASK);
        if (c->begun_bytes < message_bytes)
            break;
        c->begun_bytes -= message_bytes;
        c->first = (c->first + 1) % c->room;
        c->count--;
        m->plan->unsent[to]--;
    }
    return MOVED;
}

/* The loop. */

/* Read and write once on each connection that lets us. */
static int move(struct mover *m) {
    int found = QUIET;
    for (int64_t i = 0; i < m->plan->connections; i++) {
        struct connection *c = &m->connections[i];
        if (c->readable && !c->held) {
            int how = take(m, i);
            if (how > MOVED)
                return how;
            found |= how;
        }
        if (c->writable && c->count) {
            int how = flush(m, i);
            if (how > MOVED)
                return how;
            found |= how;
        }
    }
    return found;
}

/* Wait for an event of a socket, for `patience_s` at most; whether there was one, or -1: see errno. */
static int look(struct mover *m, double patience_s) {
    struct epoll_event events[EVENTS];
    int count = epoll_wait((int)m->plan->epoll, events, EVENTS, patience_s > 0 ? (int)(1000 * patience_s + 0.999) : 0);
    if (count < 0)
        return errno == EINTR ? 0 : -1;
    for (int e = 0; e < count; e++)
        for (int64_t i = 0; i < m->plan->connections; i++) {
            struct connection *c = &m->connections[i];
            if (c->socket != events[e].data.fd)
                continue;
            if (events[e].events & ~(uint32_t)EPOLLOUT)
                c->readable = true;
            if (events[e].events & EPOLLOUT)
                c->writable = true;
            if (events[e].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                c->hung_up = true;
        }
    return count > 0;
}

static bool is_over(const struct mover *m) {
    if (m->plan->remaining)
        return false;
    for (int64_t i = 0; i < m->plan->connections; i++)
        if (m->connections[i].count)
            return false;
    return true;
}

/* Move what can move until `until_s` (CLOCK_MONOTONIC), or until a bucket is complete, or the round is complete and all
 * of it is sent, or a signal has come, which is for the interpreter. If `until_s` has passed already, look at sockets
 * once. */
int mover_step(struct mover *m, double until_s) {
    int found = QUIET;
    m->news = false;
    for (int turn = 0;; turn++) {
        int how = move(m);
        if (how > MOVED)
            return how;
        found |= how;
        if (m->news || (found == MOVED && is_over(m)))
            return found;
        double left_s = until_s - now_s();
        if (how == MOVED && left_s > 0 && turn % TURNS)
            continue;
        int seen = look(m, how == MOVED ? 0 : left_s);
        if (seen < 0)
            return fails(m, NO_EPOLL, 0, 0, errno);
        if (left_s > 0 && (seen || how == MOVED))
            continue;
        how = move(m);
        return how > MOVED ? how : found | how;
    }
}

/* Take messages of this gate from now on, and queue its chunks that wait for no partial sum of others. */
void mover_open(struct mover *m, int32_t gate) {
    struct plan *p = m->plan;
    m->open[gate] = 1;
    if (gate < p->buckets) /* of which this node may have no chunk */
        p->bucket_complete_s[gate] = now_s();
    for (int64_t i = 0; i < p->connections; i++)
        m->connections[i].held = false;
    for (int32_t i = p->leaves_from[gate]; i < p->leaves_from[gate + 1]; i++)
        reduced(m, p->leaves[i]);
}

/* Begin the next round, with all gates closed. */
void mover_begin(struct mover *m) {
    struct plan *p = m->plan;
    m->round = (m->round + 1) & ROUND_MASK;
    memset(m->open, 0, (size_t)p->gates);
    memset(p->received, 0, (size_t)p->connections * sizeof *p->received);
    for (int64_t i = 0; i < p->connections; i++)
        m->connections[i].uncut_bytes = p->whole_bytes[i];
    memcpy(m->waiting, p->children, (size_t)p->chunks * sizeof *p->children);
    memcpy(m->unbegun, p->children, (size_t)p->chunks * sizeof *p->children);
    memcpy(p->missing, p->parts, (size_t)p->buckets * sizeof *p->parts);
    memset(p->bucket_complete_s, 0, (size_t)p->buckets * sizeof *p->bucket_complete_s);
    for (int64_t k = 0; k < p->chunks; k++)
        m->done[k] = !p->takes_part[k];
    memset(m->sum_begun, 0, (size_t)p->chunks);
    memset(m->is_summed, 0, (size_t)p->chunks);
    memset(m->parked, 0, (size_t)p->chunks);
}

void mover_free(struct mover *m) {
    if (!m)
        return;
    for (int64_t i = 0; m->connections && i < m->plan->connections; i++)
        free(m->connections[i].queue);
    free(m->connections);
    free(m->waiting);
    free(m->unbegun);
    free(m->done);
    free(m->sum_begun);
    free(m->is_summed);
    free(m->parked);
    free(m->open);
    free(m);
}

/* Give each connection a queue for all that the plan may send there in a round. All queues are empty. */
static bool furnish_queues(struct mover *m) {
    const struct plan *p = m->plan;
    for (int64_t i = 0; i < p->connections; i++)
        m->connections[i].room = 1;
    for (int64_t k = 0; k < p->chunks; k++) {
        if (p->parent[k] >= 0)
            m->connections[p->parent[k]].room++;
        for (int32_t i = p->forward_from[k]; i < p->forward_from[k + 1]; i++)
            m->connections[p->forward[i]].room++;
    }
    for (int64_t i = 0; i < p->connections; i++) {
        struct connection *c = &m->connections[i];
        free(c->queue);
        c->queue = calloc((size_t)c->room, sizeof *c->queue);
        c->first = 0;
        if (!c->queue)
            return false;
    }
    return true;
}

static bool furnish(struct mover *m) {
    const struct plan *p = m->plan;
    m->connections = calloc((size_t)p->connections + 1, sizeof *m->connections);
    m->waiting = calloc((size_t)p->chunks + 1, sizeof *m->waiting);
    m->unbegun = calloc((size_t)p->chunks + 1, sizeof *m->unbegun);
    m->done = calloc((size_t)p->chunks + 1, 1);
    m->sum_begun = calloc((size_t)p->chunks + 1, 1);
    m->is_summed = calloc((size_t)p->chunks + 1, 1);
    m->parked = calloc((size_t)p->chunks + 1, 1);
    m->open = calloc((size_t)p->gates + 1, 1);
    if (!m->connections || !m->waiting || !m->unbegun || !m->done || !m->sum_begun || !m->is_summed || !m->parked || !m->open)
        return false;
    for (int64_t i = 0; i < p->connections; i++) {
        struct connection *c = &m->connections[i];
        c->socket = p->sockets[i];
        c->readable = c->writable = true;
        c->awaited_bytes = 1;
    }
    return furnish_queues(m);
}

/* NULL: there is no memory. The plan and its arrays must last until mover_free. */
struct mover *mover_new(struct plan *plan) {
    struct mover *m = calloc(1, sizeof *m);
    if (m && (m->plan = plan, !furnish(m))) {
        mover_free(m);
        m = NULL;
    }
    if (m)
        m->round = ROUND_MASK; /* the first one is 0 */
    return m;
}

/* Follow the plan as it has changed between two rounds: the parents, and what is counted of them. The next mover_begin
 * begins the round again that had begun. What connections have read of it stays. 0: there is no memory, and only
 * mover_free may follow. */
int mover_replan(struct mover *m) {
    m->round = (m->round - 1) & ROUND_MASK;
    return furnish_queues(m);
}

int mover_version(void) { return VERSION; }
