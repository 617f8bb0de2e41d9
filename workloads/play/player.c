/* The loop of player.py: what nodes decide along a forest, on a network of this library or of another one.
 *
 * player.py calls it and says what is decided. Chunks, classes and nodes are those of synchronisation.py, which makes
 * the tables. A message is named by its chunk and its direction; the connection that carries it says which nodes it is
 * between. Time is in seconds, sizes are in bits.
 */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define NO_MEMORY (-1)
#define ROOT (-1)
#define ABSENT (-2)
#define COUNT_BITS 30
#define SUMMED (1u << 30)  /* by chunk and node: a later chunk may leave, as this one's sum has come */
#define PARKED (1u << 31)  /* the chunk waits for an earlier one's sum */
#define SLICE 8192         /* events after which the caller sees whether it has to do something else */

enum { OVER, GOES_ON, CHANGES, STANDS_STILL };

struct network {
    void *state;
    int64_t (*connect)(void *, const int32_t *, int64_t);
    int (*send)(void *, int64_t, double);
    int64_t (*advance)(void *, double);
    const int32_t *(*ended)(void *);
    double (*now)(void *);
    int64_t (*busy)(void *);
};

struct tables {
    int64_t nodes, workers, chunks, data, buckets, gates, pairs;
    /* by chunk; `before` must have come as a sum before a worker sends it, `later` waits for it, and -1 is none */
    const int32_t *klass, *bucket, *before, *later;
    const double *bits;
    /* the chunks of a gate are groups, each by class */
    const int32_t *group_from, *chunk_from, *order;
    /* by class and node: its parent, its children in the reduce-tree and in the broadcast-tree, its connections */
    const int32_t *parent, *below, *forward_from, *forward, *up, *down;
    /* by node: -1 is no worker; messages and own buckets to come in an iteration */
    const int32_t *rank, *first_class;
    const int64_t *missing;
    /* by pair of nodes between which messages go */
    const int32_t *path_from, *path, *to;
    const double *delay_s;
};

struct message {
    int32_t iteration, what, node, next; /* what: 2 chunk + (down), or ~(a bucket that is complete) */
};

struct later {
    double at_s;
    uint64_t order;
    struct message message;
};

struct line {
    int32_t first, last; /* places in `message`, -1 if none */
};

struct iteration {
    uint32_t *state;     /* by chunk and node: partial sums that have come, and the flags above */
    struct line *held;   /* by node and bucket: partial sums that wait for the bucket */
    bool *lacks;         /* by node and bucket: it is not complete */
    int64_t *missing, left, synchronised;
};

struct player {
    struct tables t;
    struct network n;
    int32_t *connection; /* by pair, -1 before its first message */
    int32_t *pair;       /* by connection */
    struct line *sent;   /* by connection */
    struct message *message, *happened;
    struct later *later;
    struct iteration **iteration;
    const double *ready_s;
    int32_t *told;       /* nodes that have all sums now */
    int64_t messages, messages_room, happened_count, happened_room, laters, laters_room, told_count;
    int64_t iterations, opened, events, most_at_once, connections;
    int32_t unused;      /* messages for use, linked */
    uint64_t order;
    double now_s, last_s;
    bool is_over, is_changing, lacks_memory;
};

static bool grow(void *array, int64_t *room, int64_t count, size_t size) {
    if (count < *room)
        return true;
    int64_t more = *room ? 2 * *room : 64;
    void *moved = realloc(*(void **)array, (size_t)more * size);
    if (!moved)
        return false;
    *(void **)array = moved;
    *room = more;
    return true;
}

static void forget(struct player *p, int64_t i) {
    struct iteration *it = p->iteration[i];
    if (!it)
        return;
    free(it->state); free(it->held); free(it->lacks); free(it->missing); free(it);
    p->iteration[i] = NULL;
}

static void forget_all(struct player *p) {
    for (int64_t i = 0; i < p->opened; i++)
        forget(p, i);
    p->opened = 0;
    free(p->iteration);
    p->iteration = NULL;
}

void player_free(struct player *p) {
    if (!p)
        return;
    forget_all(p);
    free(p->connection); free(p->pair); free(p->sent); free(p->message); free(p->happened); free(p->later);
    free(p->told); free(p);
}

/* NULL: there is no memory. */
struct player *player_new(const struct tables *t, const struct network *n, int64_t most_at_once) {
    struct player *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    size_t pairs = (size_t)t->pairs + 1;
    p->t = *t;
    p->n = *n;
    p->most_at_once = most_at_once;
    p->unused = -1;
    p->connection = malloc(pairs * sizeof *p->connection);
    p->pair = malloc(pairs * sizeof *p->pair);
    p->sent = malloc(pairs * sizeof *p->sent);
    p->told = malloc((size_t)t->workers * sizeof *p->told);
    if (!p->connection || !p->pair || !p->sent || !p->told) {
        player_free(p);
        return NULL;
    }
    for (int64_t i = 0; i < t->pairs; i++) {
        p->connection[i] = -1;
        p->sent[i] = (struct line){-1, -1};
    }
    return p;
}

static bool is_before(const struct later *a, const struct later *b) {
    return a->at_s < b->at_s || (a->at_s == b->at_s && a->order < b->order);
}

static void put_later(struct player *p, double at_s, struct message message) {
    if (!grow(&p->later, &p->laters_room, p->laters, sizeof *p->later)) {
        p->lacks_memory = true;
        return;
    }
    struct later one = {at_s, p->order++, message};
    int64_t at = p->laters++;
    for (int64_t above; at && is_before(&one, &p->later[above = (at - 1) / 2]); at = above)
        p->later[at] = p->later[above];
    p->later[at] = one;
}

static struct message take_later(struct player *p) {
    struct later first = p->later[0], last = p->later[--p->laters];
    int64_t at = 0;
    for (int64_t below; (below = 2 * at + 1) < p->laters; at = below) {
        if (below + 1 < p->laters && is_before(&p->later[below + 1], &p->later[below]))
            below++;
        if (!is_before(&p->later[below], &last))
            break;
        p->later[at] = p->later[below];
    }
    p->later[at] = last;
    return first.message;
}

static void append(struct player *p, struct line *line, struct message message) {
    int32_t m = p->unused;
    if (m >= 0) {
        p->unused = p->message[m].next;
    } else if (grow(&p->message, &p->messages_room, p->messages, sizeof *p->message)) {
        m = (int32_t)p->messages++;
    } else {
        p->lacks_memory = true;
        return;
    }
    message.next = -1;
    p->message[m] = message;
    if (line->first < 0)
        line->first = m;
    else
        p->message[line->last].next = m;
    line->last = m;
}

static struct message take_first(struct player *p, struct line *line) {
    int32_t m = line->first;
    struct message message = p->message[m];
    line->first = message.next;
    p->message[m].next = p->unused;
    p->unused = m;
    return message;
}

static void send(struct player *p, int64_t i, int32_t k, bool is_down, int32_t pair) {
    int64_t number = p->connection[pair];
    if (number < 0) {
        int32_t from = p->t.path_from[pair];
        number = p->n.connect(p->n.state, p->t.path + from, p->t.path_from[pair + 1] - from);
        if (number < 0) {
            p->lacks_memory = true;
            return;
        }
        p->connection[pair] = (int32_t)number;
        p->pair[number] = pair;
        p->connections++;
    }
    append(p, &p->sent[number], (struct message){(int32_t)i, 2 * k + is_down, p->t.to[pair], -1});
    if (p->n.send(p->n.state, number, p->t.bits[k]) < 0)
        p->lacks_memory = true;
}

static void pass_gate(struct player *p, int64_t i, int32_t node, int64_t gate);
static void reduced(struct player *p, int64_t i, int32_t node, int32_t k);

/* Pass a sum down, and send what waited for it. */
static void sum_came(struct player *p, int64_t i, int32_t node, int32_t k) {
    const struct tables *t = &p->t;
    int64_t row = t->klass[k] * t->nodes, gate = t->buckets + 1 + k - t->data;
    for (int32_t at = t->forward_from[row + node]; at < t->forward_from[row + node + 1]; at++)
        send(p, i, k, true, t->down[row + t->forward[at]]);
    if (k >= t->data && gate < t->gates)
        pass_gate(p, i, node, gate);
    int32_t later = t->later[k];
    if (later < 0 || t->rank[node] < 0 || t->parent[row + node] == ROOT)
        return;
    uint32_t *state = p->iteration[i]->state;
    state[k * t->nodes + node] |= SUMMED;
    if (state[later * t->nodes + node] & PARKED) {
        state[later * t->nodes + node] &= ~PARKED;
        reduced(p, i, node, later);
    }
}

/* Pass a chunk up, or at the root down, unless it has to wait for an earlier one's sum. */
static void reduced(struct player *p, int64_t i, int32_t node, int32_t k) {
    const struct tables *t = &p->t;
    int64_t place = t->klass[k] * t->nodes + node;
    if (t->parent[place] == ROOT) {
        sum_came(p, i, node, k);
        return;
    }
    int32_t before = t->before[k];
    if (before >= 0 && t->rank[node] >= 0) {
        uint32_t *state = p->iteration[i]->state;
        if (!(state[before * t->nodes + node] & SUMMED)) {
            state[k * t->nodes + node] |= PARKED;
            return;
        }
        state[before * t->nodes + node] &= ~SUMMED;
    }
    send(p, i, k, false, t->up[place]);
}

/* Send what needs nothing from other nodes but the gate. */
static void pass_gate(struct player *p, int64_t i, int32_t node, int64_t gate) {
    const struct tables *t = &p->t;
    for (int32_t group = t->group_from[gate]; group < t->group_from[gate + 1]; group++) {
        int32_t from = t->chunk_from[group], size = t->chunk_from[group + 1] - from, low = 0, high = size;
        while (low < high) {
            int32_t middle = (low + high) / 2;
            if (t->klass[t->order[from + middle]] < t->first_class[node])
                low = middle + 1;
            else
                high = middle;
        }
        for (int32_t nth = 0; nth < size; nth++) {
            int32_t k = t->order[from + (low + nth < size ? low + nth : low + nth - size)];
            int64_t place = t->klass[k] * t->nodes + node;
            if (t->parent[place] != ABSENT && !t->below[place])
                reduced(p, i, node, k);
        }
    }
}

static void begin_worker(struct player *p, int64_t i, int32_t node, double start_s);

/* A worker that has all sums of an iteration begins the next one. */
static void look(struct player *p, int64_t i, int32_t node) {
    struct iteration *it = p->iteration[i];
    if (p->t.rank[node] < 0 || it->missing[node])
        return;
    p->told[p->told_count++] = node;
    if (++it->synchronised == p->t.workers && p->opened <= i + 1) {
        p->is_over = true;
        p->laters = 0; /* computations that are still under way do not count */
    } else if (i + 1 < p->iterations) {
        begin_worker(p, i + 1, node, 0);
    }
}

static void take(struct player *p, int64_t i, int32_t node, int32_t what) {
    const struct tables *t = &p->t;
    int32_t k = what / 2, below = t->below[t->klass[k] * t->nodes + node];
    if (what & 1)
        sum_came(p, i, node, k);
    else if (below == 1 || (++p->iteration[i]->state[k * t->nodes + node] & ((1u << COUNT_BITS) - 1)) == (uint32_t)below)
        reduced(p, i, node, k);
    p->iteration[i]->missing[node]--;
    p->iteration[i]->left--;
    look(p, i, node);
}

/* A node has its own part of a bucket. */
static void complete(struct player *p, int64_t i, int32_t node, int32_t bucket) {
    struct iteration *it = p->iteration[i];
    int64_t own = node * p->t.buckets + bucket;
    pass_gate(p, i, node, bucket);
    if (p->t.rank[node] >= 0) {
        it->lacks[own] = false;
        it->missing[node]--;
        it->left--;
    }
    look(p, i, node);
    while (it->held[own].first >= 0 && !p->lacks_memory)
        take(p, i, node, take_first(p, &it->held[own]).what);
}

static void open_next(struct player *p) {
    const struct tables *t = &p->t;
    int64_t i = p->opened;
    size_t nodes = (size_t)t->nodes, own = nodes * (size_t)t->buckets;
    struct iteration *it = p->iteration[i] = calloc(1, sizeof *it);
    if (it) {
        p->opened++;
        it->state = calloc(nodes * (size_t)t->chunks, sizeof *it->state);
        it->held = malloc(own * sizeof *it->held);
        it->lacks = calloc(own, sizeof *it->lacks);
        it->missing = malloc(nodes * sizeof *it->missing);
    }
    if (!it || !it->state || !it->held || !it->lacks || !it->missing) {
        p->lacks_memory = true;
        return;
    }
    for (size_t at = 0; at < own; at++) {
        it->held[at] = (struct line){-1, -1};
        it->lacks[at] = t->rank[(int64_t)at / t->buckets] >= 0;
    }
    for (int64_t node = 0; node < t->nodes; node++)
        it->left += it->missing[node] = t->missing[node];
    for (int32_t node = 0; node < t->nodes; node++)
        for (int32_t bucket = 0; t->rank[node] < 0 && bucket < t->buckets && !p->lacks_memory; bucket++)
            complete(p, i, node, bucket);
}

/* Where a worker needs no time, it begins the first iteration at once. */
static void begin_worker(struct player *p, int64_t i, int32_t node, double start_s) {
    const double *ready_s = p->ready_s + (i * p->t.workers + p->t.rank[node]) * p->t.buckets;
    for (int32_t bucket = 0; bucket < p->t.buckets && !p->lacks_memory; bucket++) {
        double after_s = start_s + ready_s[bucket];
        if (after_s > 0 || i)
            put_later(p, p->now_s + after_s, (struct message){(int32_t)i, ~bucket, node, -1});
        else
            complete(p, i, node, bucket);
    }
}

static void happen(struct player *p, struct message m) {
    if (p->is_over)
        return;
    if (m.what < 0) {
        if (m.iteration == p->opened)
            open_next(p);
        if (!p->lacks_memory)
            complete(p, m.iteration, m.node, ~m.what);
    } else {
        int64_t own = m.node * p->t.buckets + p->t.bucket[m.what / 2];
        struct iteration *it = p->iteration[m.iteration];
        if (!(m.what & 1) && it->lacks[own])
            append(p, &it->held[own], m);
        else
            take(p, m.iteration, m.node, m.what);
    }
    if (!p->lacks_memory && !p->iteration[m.iteration]->left)
        forget(p, m.iteration);
}

static void note(struct player *p, struct message m) {
    if (grow(&p->happened, &p->happened_room, p->happened_count, sizeof *p->happened))
        p->happened[p->happened_count++] = m;
    else
        p->lacks_memory = true;
}

/* Begin iterations: double[iterations, workers, buckets], double[workers]. Return how many nodes have all sums now. */
int64_t player_begin(struct player *p, int64_t iterations, const double *ready_s, const double *start_s,
                     const int32_t *workers) {
    forget_all(p);
    p->iteration = calloc((size_t)iterations, sizeof *p->iteration);
    if (!p->iteration)
        return NO_MEMORY;
    p->iterations = iterations;
    p->ready_s = ready_s;
    p->is_over = p->is_changing = false;
    p->events = p->told_count = 0;
    p->now_s = p->last_s = p->n.now(p->n.state);
    open_next(p);
    for (int64_t rank = 0; rank < p->t.workers && !p->lacks_memory; rank++)
        begin_worker(p, 0, workers[rank], start_s[rank]);
    return p->lacks_memory ? NO_MEMORY : p->told_count;
}

/* Go on until workers have all sums, rates have to be changed at `changes_s`, or enough has happened. */
int player_step(struct player *p, double changes_s) {
    int64_t handled = 0;
    p->told_count = 0;
    while (!p->told_count && handled < SLICE) {
        p->happened_count = 0;
        while (!p->happened_count && (p->laters || p->n.busy(p->n.state))) {
            if (!p->is_changing) {
                double later_s = p->laters ? p->later[0].at_s : INFINITY;
                int64_t count = p->n.advance(p->n.state, fmin(changes_s, later_s));
                if (count < 0)
                    return NO_MEMORY;
                p->now_s = p->n.now(p->n.state);
                const int32_t *ended = p->n.ended(p->n.state);
                for (int64_t at = 0; at < count; at++) {
                    double delay_s = p->t.delay_s[p->pair[ended[at]]];
                    struct message m = take_first(p, &p->sent[ended[at]]);
                    if (delay_s > 0)
                        put_later(p, p->now_s + delay_s, m);
                    else
                        note(p, m);
                }
                if (count)
                    continue;
                if (changes_s <= p->now_s) {
                    p->is_changing = true; /* what is due at the same moment comes after the change */
                    return CHANGES;
                }
                if (!p->laters)
                    break;
            }
            p->is_changing = false;
            while (p->laters && p->later[0].at_s <= p->now_s)
                note(p, take_later(p));
        }
        if (!p->happened_count)
            return OVER;
        p->events = p->now_s == p->last_s ? p->events + p->happened_count : 0;
        p->last_s = p->now_s;
        if (p->events > p->most_at_once)
            return STANDS_STILL;
        for (int64_t at = 0; at < p->happened_count && !p->lacks_memory; at++)
            happen(p, p->happened[at]);
        if (p->lacks_memory)
            return NO_MEMORY;
        handled += p->happened_count;
    }
    return GOES_ON;
}

const int32_t *player_told(const struct player *p) { return p->told; }
int64_t player_told_count(const struct player *p) { return p->told_count; }

/* Say between which pair of nodes a message waits; return its chunk, -1 if none does. */
int64_t player_waiting(const struct player *p, int32_t *pair) {
    for (int64_t number = 0; number < p->connections; number++)
        if (p->sent[number].first >= 0) {
            *pair = p->pair[number];
            return p->message[p->sent[number].first].what / 2;
        }
    return -1;
}
