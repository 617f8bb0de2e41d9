/* The network of fluid.py: connections that share links by max-min fair shares.
 *
 * fluid.py calls it and says what the model is. A connection sends its messages one after the other; those that have
 * something to send are active. Shares are computed again when the set of active connections or a rate has changed.
 * Time is in seconds, sizes are in bits.
 */

#include "messages.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define VERSION 13       /* compiled.py takes no other one */
#define EQUAL 1e-9      /* shares, and ends of messages, that differ by less (relative) are the same */
#define ULPS 1e-15      /* of now: a step of time that rounding would swallow */

struct connection {
    int32_t *path;      /* directed links */
    struct messages messages; /* the first is being sent */
    int64_t hops, place; /* place: in `active`, -1 if idle */
    double left_bits, rate_bps;
};

struct fluid {
    int64_t links, connections, room, busy;
    struct connection *connection;
    int32_t *active, *ended;
    double now_s, *rate_bps, *carried_bits;
    bool changed;
    double *free_bps;   /* by link, while shares are computed */
    int64_t *sharing;   /* by link: active connections whose share is not known yet */
    int64_t *from;      /* links + 1: where a link's part of `members` begins */
    int32_t *members, *used;
    int64_t members_room;
};

void fluid_free(struct fluid *f) {
    if (!f)
        return;
    for (int64_t i = 0; i < f->connections; i++) {
        free(f->connection[i].path);
        free(f->connection[i].messages.sizes);
    }
    free(f->connection); free(f->active); free(f->ended); free(f->rate_bps); free(f->carried_bits); free(f->free_bps);
    free(f->sharing); free(f->from); free(f->members); free(f->used); free(f);
}

/* NULL: there is no memory. */
struct fluid *fluid_new(int64_t links, const double *rate_bps) {
    struct fluid *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    size_t n = (size_t)links + 1;
    f->links = links;
    f->rate_bps = calloc(n, sizeof(double)); f->carried_bits = calloc(n, sizeof(double));
    f->free_bps = calloc(n, sizeof(double)); f->sharing = calloc(n, sizeof(int64_t));
    f->from = calloc(n, sizeof(int64_t)); f->used = calloc(n, sizeof(int32_t));
    if (!f->rate_bps || !f->carried_bits || !f->free_bps || !f->sharing || !f->from || !f->used) {
        fluid_free(f);
        return NULL;
    }
    memcpy(f->rate_bps, rate_bps, (size_t)links * sizeof(double));
    return f;
}

/* Return the number of a new connection along a path of one link or more. */
int64_t fluid_connect(struct fluid *f, const int32_t *path, int64_t hops) {
    if (f->connections == f->room) {
        int64_t room = f->room ? 2 * f->room : 64;
        struct connection *more = realloc(f->connection, (size_t)room * sizeof *more);
        if (!more)
            return NO_MEMORY;
        f->connection = more;
        int32_t *active = realloc(f->active, (size_t)room * sizeof *active);
        if (!active)
            return NO_MEMORY;
        f->active = active;
        int32_t *ended = realloc(f->ended, (size_t)room * sizeof *ended);
        if (!ended)
            return NO_MEMORY;
        f->ended = ended;
        f->room = room;
    }
    int32_t *own = malloc((size_t)hops * sizeof *own);
    if (!own)
        return NO_MEMORY;
    memcpy(own, path, (size_t)hops * sizeof *own);
    f->connection[f->connections] = (struct connection){.path = own, .hops = hops, .place = -1};
    return f->connections++;
}

int fluid_send(struct fluid *f, int64_t number, double bits) {
    struct connection *c = &f->connection[number];
    if (messages_put(&c->messages, bits) < 0)
        return NO_MEMORY;
    if (c->place < 0) {
        c->left_bits = bits;
        c->place = f->busy;
        f->active[f->busy++] = (int32_t)number;
        f->changed = true;
    }
    return 0;
}

void fluid_set_rate(struct fluid *f, int64_t link, double rate_bps) {
    f->rate_bps[link] = rate_bps;
    f->changed = true;
}

/* Fill `members` with the active connections of each used link. Return the number of used links. */
static int64_t gather(struct fluid *f) {
    int64_t hops = 0, used = 0;
    memset(f->sharing, 0, (size_t)f->links * sizeof *f->sharing);
    for (int64_t i = 0; i < f->busy; i++) {
        struct connection *c = &f->connection[f->active[i]];
        hops += c->hops;
        for (int64_t h = 0; h < c->hops; h++)
            f->sharing[c->path[h]]++;
    }
    if (hops > f->members_room) {
        free(f->members);
        f->members_room = 2 * hops;
        f->members = malloc((size_t)f->members_room * sizeof *f->members);
        if (!f->members) {
            f->members_room = 0;
            return NO_MEMORY;
        }
    }
    int64_t at = 0;
    for (int64_t l = 0; l < f->links; l++) {
        f->free_bps[l] = f->rate_bps[l];
        at += f->sharing[l];
        f->from[l] = at; /* counted down below, to where the link's part begins */
        if (f->sharing[l])
            f->used[used++] = (int32_t)l;
    }
    f->from[f->links] = at;
    for (int64_t i = f->busy - 1; i >= 0; i--) {
        struct connection *c = &f->connection[f->active[i]];
        c->rate_bps = -1;
        for (int64_t h = 0; h < c->hops; h++)
            f->members[--f->from[c->path[h]]] = f->active[i];
    }
    return used;
}

/* Progressive filling: the links whose connections get least are full, and these connections' shares are known. */
static int share(struct fluid *f) {
    int64_t used = gather(f);
    if (used < 0)
        return NO_MEMORY;
    while (used) {
        double least = INFINITY;
        int64_t kept = 0;
        for (int64_t i = 0; i < used; i++) {
            int32_t l = f->used[i];
            if (!f->sharing[l])
                continue;
            f->used[kept++] = l;
            double each = f->free_bps[l] / (double)f->sharing[l];
            if (each < least)
                least = each;
        }
        used = kept;
        for (int64_t i = 0; i < used; i++) {
            int32_t l = f->used[i];
            if (!f->sharing[l] || f->free_bps[l] / (double)f->sharing[l] > least * (1 + EQUAL))
                continue;
            for (int64_t m = f->from[l]; m < f->from[l + 1]; m++) {
                struct connection *c = &f->connection[f->members[m]];
                if (c->rate_bps >= 0)
                    continue;
                c->rate_bps = least;
                for (int64_t h = 0; h < c->hops; h++) {
                    f->sharing[c->path[h]]--;
                    f->free_bps[c->path[h]] = larger(0, f->free_bps[c->path[h]] - least);
                }
            }
        }
    }
    f->changed = false;
    return 0;
}

static int by_number(const void *a, const void *b) {
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

static void end_message(struct fluid *f, struct connection *c) {
    for (int64_t h = 0; h < c->hops; h++)
        f->carried_bits[c->path[h]] += messages_first(&c->messages);
    messages_drop(&c->messages);
    if (c->messages.count) {
        c->left_bits = messages_first(&c->messages);
        return;
    }
    int32_t last = f->active[--f->busy];
    f->active[c->place] = last;
    f->connection[last].place = c->place;
    c->place = -1;
    c->rate_bps = 0;
    f->changed = true;
}

/* A network without send buffers asks for no messages: it gets the next one when the one before has ended. */
int fluid_ask(const struct fluid *f, int64_t number, double (*choose)(void *, int64_t), void *chooser) {
    (void)f; (void)number; (void)choose; (void)chooser;
    return 0;
}

/* Go on to the next end of messages, or to `until_s` if that is earlier. Return how many connections have ended a
 * message. If nothing moves and `until_s` is infinite, time stands still. */
int64_t fluid_advance(struct fluid *f, double until_s) {
    if (f->changed && share(f) < 0)
        return NO_MEMORY;
    double step_s = INFINITY;
    for (int64_t i = 0; i < f->busy; i++) {
        struct connection *c = &f->connection[f->active[i]];
        if (c->left_bits <= 0)
            step_s = 0;
        else if (c->rate_bps > 0)
            step_s = smaller(step_s, c->left_bits / c->rate_bps);
    }
    bool is_end = f->now_s + step_s <= until_s && isfinite(step_s);
    if (!is_end) {
        if (!isfinite(until_s))
            return 0;
        step_s = larger(0, until_s - f->now_s);
    }
    f->now_s = is_end ? f->now_s + step_s : larger(f->now_s, until_s);
    int64_t count = 0;
    for (int64_t i = 0; i < f->busy; i++) {
        struct connection *c = &f->connection[f->active[i]];
        c->left_bits -= c->rate_bps * step_s;
        if (is_end && c->left_bits <= larger(EQUAL * messages_first(&c->messages), c->rate_bps * f->now_s * ULPS))
            f->ended[count++] = f->active[i];
    }
    qsort(f->ended, (size_t)count, sizeof *f->ended, by_number);
    for (int64_t i = 0; i < count; i++)
        end_message(f, &f->connection[f->ended[i]]);
    return count;
}

/* Write the share of each connection, 0 of idle ones. */
int fluid_shares(struct fluid *f, double *rate_bps) {
    if (f->changed && share(f) < 0)
        return NO_MEMORY;
    for (int64_t i = 0; i < f->connections; i++)
        rate_bps[i] = f->connection[i].place < 0 ? 0 : f->connection[i].rate_bps;
    return 0;
}

/* Connections whose messages have ended, in ascending order. */
const int32_t *fluid_ended(const struct fluid *f) { return f->ended; }
double fluid_now(const struct fluid *f) { return f->now_s; }
int64_t fluid_busy(const struct fluid *f) { return f->busy; }
void fluid_carried(const struct fluid *f, double *bits) {
    memcpy(bits, f->carried_bits, (size_t)f->links * sizeof *bits);
}
int play_version(void) { return VERSION; }
