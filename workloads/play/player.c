/* The loop of arena.py: what nodes decide along forests, on a network of this library or of another one.
 *
 * An arena has the network and the time, and a player for each job. player.py says what is decided. Chunks, classes and
 * nodes are those of synchronisation.py, which makes the tables. A message is named by its chunk and its direction; the
 * connection that carries it says which nodes it is between. Time is in seconds, sizes are in bits.
 */

#include "common.h"

#include <math.h>
#include <string.h>

#define ROOT (-1)
#define ABSENT (-2)
#define SUMMED (1u << 30)  /* by chunk and node, above a count: a later chunk may leave, as this one's sum has come */
#define PARKED (1u << 31)  /* the chunk waits for an earlier one's sum */
#define NOTES 4            /* numbers of a worker in an iteration, see player_begin */
#define SUMS 2             /* the last phase of steps: what they wait for is the gradient */
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
    int (*ask)(void *, int64_t, double (*)(void *, int64_t), void *);
};

struct tables {
    int64_t nodes, workers, chunks, data, buckets, gates, pairs, ways, steps, tensors;
    int64_t jitters;  /* steps of a synchronisation that begin late by chance, 0 if none do */
    int64_t together; /* only the last worker is told of, whose end is that of all */
    int64_t ordered;  /* a later bucket overtakes earlier ones that wait to be sent */
    int64_t passes;   /* workers begin the next forward pass with the sums that they have */
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
    /* by pair of nodes between which messages go, and one more: the first of its ways, over each of which it has a
     * connection */
    const int32_t *way_from;
    /* by way (`path_from` has one more): its links, the node that it leads to, the way whose connection it shares, and
     * its delay */
    const int32_t *path_from, *path, *to, *shares;
    const double *delay_s;
    /* by rank, and one more: its first step */
    const int32_t *step_from;
    /* by step: what it needs of messages and of another step, the step that needs it, its phase, and (for one step
     * more) the first message that it gives */
    const int32_t *needs, *then, *phase, *give_from;
    /* by message of steps: the step that needs it, and its pair, -1 if it stays on its node */
    const int32_t *taker, *tensor_pair;
    /* by rank, and one more: the first place in `taken`, which has the messages that it needs */
    const int32_t *taken_from, *taken;
    const double *tensor_bits;
    /* by class and node, where steps jitter: the step in which it passes a partial sum up, and a sum down */
    const int32_t *up_step, *down_step;
    /* by rank, and one more: the first of its draws among those of an iteration */
    const int32_t *draw_from;
    /* by rank and bucket, where forward passes begin early: sums that come in an iteration */
    const int32_t *parts;
    const int32_t *node; /* by rank */
};

/* What happens, by `what`, from 0 on: 2 chunk + (down), then messages of steps. Below 0, ~what is a bucket that is
 * complete, then a step that ends, then a worker that begins, and last a message that jitter has held back until now:
 * `next` is its pair. */
struct message {
    int32_t iteration, what, node, next, way;
};

struct later {
    double at_s; /* or another key that sorts */
    uint64_t order;
    struct message message;
};

struct heap {
    struct later *of; /* the first one first */
    int64_t count, room;
};

struct line {
    int32_t first, last; /* places in `message`, -1 if none */
};

struct iteration {
    uint32_t *state;     /* by chunk and node: partial sums that have come, and the flags above */
    struct line *held;   /* by node and bucket: partial sums that wait for the bucket */
    bool *lacks;         /* by node and bucket: it is not complete */
    int32_t *parts;      /* by rank and bucket, where forward passes begin early: sums that have not come */
    double *summed_s;    /* likewise: when the last of them came */
    int64_t *missing, left, synchronised;
};

/* The steps of a worker, one at a time, in the order in which all that they need is there. */
struct agenda {
    int64_t ready, taken; /* steps of this iteration until now */
    int32_t left, early_first, early_last;
    bool is_busy;
    double free_s;
};

struct player {
    struct tables t;
    struct arena *arena;
    int32_t number;      /* among those of the arena */
    int32_t *connection; /* by way, -1 before its first message */
    double *given;       /* by way: bits that it has got to send until now */
    double *came_s;      /* by way: when its last message comes or has come; none overtakes another */
    struct line *sent;   /* by way */
    struct line *blocked; /* by way, where buckets overtake: what came behind a partial sum that waits for its bucket */
    bool *is_blocked;    /* by way: there is such a partial sum */
    struct heap *outbox; /* by way, where buckets overtake: what the network has not asked for */
    struct message *message;
    struct heap later;
    struct iteration **iteration;
    const double *ready_s;
    struct agenda *agenda; /* by rank */
    int32_t *lacks;      /* by step: what is not there yet */
    int32_t *queue;      /* by rank from `step_from` on: steps that are ready */
    double *there_s;     /* by step: when all was there */
    bool *is_there;      /* by message of steps: it has come in this iteration */
    int32_t *early;      /* by message of steps: the next one that came before its iteration, -1 if none */
    double *notes;       /* by iteration and rank: see player_begin */
    double *carried;     /* by way, bits */
    int32_t *parts;      /* by message of steps: parts that have come */
    const double *drawn_s; /* by iteration and draw, where steps jitter: how late a step begins */
    double *sums_s;      /* by iteration and rank, where steps jitter: when a worker has all sums */
    double *due_s;       /* by rank and step: when it may begin in this iteration, -1 if that is not drawn */
    double *latest_s;    /* by rank: when its latest step may begin */
    int32_t *draws, *held_back; /* by rank: draws of this iteration; messages that wait for their step */
    const double *forward_s; /* by iteration, rank and bucket, where forward passes begin early */
    double *passes_s;    /* by iteration and rank, likewise: when the next pass begins and ends */
    int64_t messages, messages_room;
    int64_t iterations, opened;
    int32_t unused;      /* messages for use, linked */
    uint64_t order;
    bool is_over, to_the_end;
};

struct sender {
    struct player *player;
    int32_t way;
};

struct event {
    struct player *player;
    struct message message;
};

struct told {
    int32_t player, node;
};

struct arena {
    struct network n;
    struct player **player;
    struct sender *sender;   /* by connection */
    struct event *happened;
    struct told *told;       /* nodes that have all sums of an iteration, and have not been told of */
    int64_t players, players_room, senders_room, happened_count, happened_room, told_count, told_room;
    int64_t events, most_at_once;
    double now_s, last_s;
    bool is_changing, lacks_memory;
};

static void forget(struct player *p, int64_t i) {
    struct iteration *it = p->iteration[i];
    if (!it)
        return;
    free(it->state); free(it->held); free(it->lacks); free(it->missing); free(it->parts); free(it->summed_s); free(it);
    p->iteration[i] = NULL;
}

static void forget_all(struct player *p) {
    for (int64_t i = 0; i < p->opened; i++)
        forget(p, i);
    p->opened = 0;
    free(p->iteration);
    p->iteration = NULL;
}

static void player_free(struct player *p) {
    forget_all(p);
    free(p->connection); free(p->given); free(p->came_s); free(p->parts); free(p->sent); free(p->message);
    for (int64_t way = 0; p->outbox && p->t.ordered && way < p->t.ways; way++)
        free(p->outbox[way].of);
    free(p->outbox); free(p->blocked); free(p->is_blocked);
    free(p->later.of); free(p->agenda); free(p->lacks); free(p->queue); free(p->there_s); free(p->is_there);
    free(p->early); free(p->carried); free(p->due_s); free(p->latest_s); free(p->draws); free(p->held_back);
    free(p);
}

/* NULL: there is no memory. */
struct arena *arena_new(const struct network *n, int64_t most_at_once) {
    struct arena *a = calloc(1, sizeof *a);
    if (a) {
        a->n = *n;
        a->most_at_once = most_at_once;
    }
    return a;
}

/* NULL: there is no memory. */
struct player *player_new(struct arena *arena, const struct tables *t) {
    if (!grow(&arena->player, &arena->players_room, arena->players, sizeof *arena->player))
        return NULL;
    struct player *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    size_t ways = (size_t)t->ways + 1, steps = (size_t)t->steps + 1, tensors = (size_t)t->tensors + 1;
    p->t = *t;
    p->arena = arena;
    p->unused = -1;
    p->connection = malloc(ways * sizeof *p->connection);
    p->given = calloc(ways, sizeof *p->given);
    p->came_s = calloc(ways, sizeof *p->came_s);
    p->sent = malloc(ways * sizeof *p->sent);
    p->agenda = malloc((size_t)t->workers * sizeof *p->agenda);
    p->due_s = malloc((size_t)(t->workers * t->jitters + 1) * sizeof *p->due_s);
    p->latest_s = calloc((size_t)t->workers, sizeof *p->latest_s);
    p->draws = calloc((size_t)t->workers, sizeof *p->draws);
    p->held_back = calloc((size_t)t->workers, sizeof *p->held_back);
    p->lacks = malloc(steps * sizeof *p->lacks);
    p->queue = malloc(steps * sizeof *p->queue);
    p->there_s = malloc(steps * sizeof *p->there_s);
    p->is_there = malloc(tensors * sizeof *p->is_there);
    p->early = malloc(tensors * sizeof *p->early);
    p->parts = calloc(tensors, sizeof *p->parts);
    p->carried = calloc(ways, sizeof *p->carried);
    size_t ordered = t->ordered ? ways : 1;
    p->outbox = calloc(ordered, sizeof *p->outbox);
    p->blocked = malloc(ordered * sizeof *p->blocked);
    p->is_blocked = calloc(ordered, sizeof *p->is_blocked);
    if (!p->connection || !p->sent || !p->agenda || !p->lacks || !p->queue || !p->there_s || !p->is_there ||
        !p->early || !p->carried || !p->parts || !p->given || !p->came_s || !p->due_s || !p->latest_s || !p->draws ||
        !p->held_back || !p->outbox || !p->blocked || !p->is_blocked) {
        player_free(p);
        return NULL;
    }
    for (int64_t i = 0; i < t->ways; i++) {
        p->connection[i] = -1;
        p->sent[i] = (struct line){-1, -1};
        if (t->ordered)
            p->blocked[i] = (struct line){-1, -1};
    }
    p->number = (int32_t)arena->players;
    arena->player[arena->players++] = p;
    return p;
}

void arena_free(struct arena *a) {
    if (!a)
        return;
    for (int64_t i = 0; i < a->players; i++)
        player_free(a->player[i]);
    free(a->player); free(a->sender); free(a->happened); free(a->told); free(a);
}

static bool is_before(const struct later *a, const struct later *b) {
    return a->at_s < b->at_s || (a->at_s == b->at_s && a->order < b->order);
}

static void heap_put(struct player *p, struct heap *heap, double key, struct message message) {
    if (!grow(&heap->of, &heap->room, heap->count, sizeof *heap->of)) {
        p->arena->lacks_memory = true;
        return;
    }
    struct later last = {key, p->order++, message};
    int64_t at = heap->count++;
    for (int64_t above; at && is_before(&last, &heap->of[above = (at - 1) / 2]); at = above)
        heap->of[at] = heap->of[above];
    heap->of[at] = last;
}

static struct message heap_take(struct heap *heap) {
    struct later first = heap->of[0], last = heap->of[--heap->count];
    int64_t at = 0;
    for (int64_t below; (below = 2 * at + 1) < heap->count; at = below) {
        if (below + 1 < heap->count && is_before(&heap->of[below + 1], &heap->of[below]))
            below++;
        if (!is_before(&heap->of[below], &last))
            break;
        heap->of[at] = heap->of[below];
    }
    heap->of[at] = last;
    return first.message;
}

static void put_later(struct player *p, double at_s, struct message message) { heap_put(p, &p->later, at_s, message); }

static inline void append(struct player *p, struct line *line, const struct message *message) {
    int32_t m = p->unused;
    if (m >= 0) {
        p->unused = p->message[m].next;
    } else if (grow(&p->message, &p->messages_room, p->messages, sizeof *p->message)) {
        m = (int32_t)p->messages++;
    } else {
        p->arena->lacks_memory = true;
        return;
    }
    p->message[m] = *message;
    p->message[m].next = -1;
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

static int32_t ways_of(const struct player *p, int32_t pair) { return p->t.way_from[pair + 1] - p->t.way_from[pair]; }

/* Bits of a message, or of each part of a message of steps. */
static double bits_of(const struct player *p, int32_t what) {
    int64_t tensor = what - 2 * p->t.chunks;
    if (tensor < 0)
        return p->t.bits[what / 2];
    return p->t.tensor_bits[tensor] / ways_of(p, p->t.tensor_pair[tensor]);
}

/* Give the network the next of the messages of a way that wait. */
static void hand_over(struct player *p, int32_t way) {
    struct message m = heap_take(&p->outbox[way]);
    append(p, &p->sent[way], &m);
    if (p->arena->n.send(p->arena->n.state, p->connection[way], bits_of(p, m.what)) < 0)
        p->arena->lacks_memory = true;
}

/* What the network calls, when there is room, with a connection: it takes its next message. Return the bits of that, -1
 * if none waits. */
static double choose(void *arena, int64_t number) {
    const struct sender *sender = &((struct arena *)arena)->sender[number];
    struct player *p = sender->player;
    if (!p->outbox[sender->way].count)
        return -1;
    struct message m = heap_take(&p->outbox[sender->way]);
    append(p, &p->sent[sender->way], &m);
    return bits_of(p, m.what);
}

static void send_over(struct player *p, int64_t i, int32_t what, int32_t way) {
    struct arena *arena = p->arena;
    int32_t to = p->t.to[way];
    way = p->t.shares[way];
    int64_t number = p->connection[way];
    if (number < 0) {
        int32_t from = p->t.path_from[way];
        number = arena->n.connect(arena->n.state, p->t.path + from, p->t.path_from[way + 1] - from);
        while (number >= arena->senders_room) /* flows have numbers, too */
            if (!grow(&arena->sender, &arena->senders_room, arena->senders_room, sizeof *arena->sender))
                break;
        if (number < 0 || number >= arena->senders_room) {
            arena->lacks_memory = true;
            return;
        }
        p->connection[way] = (int32_t)number;
        arena->sender[number] = (struct sender){p, way};
    }
    double bits = bits_of(p, what);
    p->given[way] += bits;
    struct message m = {(int32_t)i, what, to, -1, way};
    if (p->t.ordered) {
        /* No message overtakes one of an earlier iteration: its receiver may wait for that before it takes this one. */
        double key = (double)i * (double)p->t.buckets - p->t.bucket[what / 2];
        heap_put(p, &p->outbox[way], key, m);
        int said = arena->lacks_memory ? NO_MEMORY : arena->n.ask(arena->n.state, number, choose, arena);
        if (said < 0)
            arena->lacks_memory = true;
        else if (!said && p->sent[way].first < 0) /* a network that does not ask has one message at a time */
            hand_over(p, way);
        return;
    }
    append(p, &p->sent[way], &m);
    if (arena->n.send(arena->n.state, number, bits) < 0)
        arena->lacks_memory = true;
}

/* Of several connections, take the one that has got the fewest bytes. A message of steps has a part for each. */
static void send(struct player *p, int64_t i, int32_t what, int32_t pair) {
    int32_t first = p->t.way_from[pair], end = p->t.way_from[pair + 1], least = first;
    if (what >= 2 * p->t.chunks) {
        for (int32_t way = first; way < end && !p->arena->lacks_memory; way++)
            send_over(p, i, what, way);
        return;
    }
    for (int32_t way = first + 1; way < end; way++)
        if (p->given[way] < p->given[least])
            least = way;
    send_over(p, i, what, least);
}

/* Send a message of a chunk, where there is jitter once its step may begin: a step is late by what is drawn for it, and
 * holds up the one after it. */
static void send_chunk(struct player *p, int64_t i, int32_t node, int32_t what, int32_t pair) {
    const struct tables *t = &p->t;
    int32_t rank = t->rank[node];
    if (!t->jitters || rank < 0 || t->draw_from[rank] == t->draw_from[rank + 1]) {
        send(p, i, what, pair);
        return;
    }
    double now_s = p->arena->now_s;
    int64_t place = t->klass[what / 2] * t->nodes + node;
    double *due_s = &p->due_s[rank * t->jitters + (what & 1 ? t->down_step : t->up_step)[place]];
    if (*due_s < 0) {
        double late_s = p->drawn_s[i * t->draw_from[t->workers] + t->draw_from[rank] + p->draws[rank]++];
        *due_s = p->latest_s[rank] = larger(now_s, p->latest_s[rank]) + late_s;
    }
    if (*due_s <= now_s) {
        send(p, i, what, pair);
        return;
    }
    p->held_back[rank]++;
    put_later(p, *due_s, (struct message){(int32_t)i, (int32_t)~(t->buckets + t->steps + 1 + what), node, pair, -1});
}

static void begin_draws(struct player *p, int32_t rank) {
    p->draws[rank] = 0;
    for (int64_t step = 0; step < p->t.jitters; step++)
        p->due_s[rank * p->t.jitters + step] = -1;
}

static void pass_gate(struct player *p, int64_t i, int32_t node, int64_t gate);
static void reduced(struct player *p, int64_t i, int32_t node, int32_t k);

/* Pass a sum down, and send what waited for it. */
static void sum_came(struct player *p, int64_t i, int32_t node, int32_t k) {
    const struct tables *t = &p->t;
    int64_t row = t->klass[k] * t->nodes, gate = t->buckets + 1 + k - t->data;
    if (t->passes && t->rank[node] >= 0) {
        int64_t own = t->rank[node] * t->buckets + t->bucket[k];
        if (!--p->iteration[i]->parts[own])
            p->iteration[i]->summed_s[own] = p->arena->now_s;
    }
    for (int32_t at = t->forward_from[row + node]; at < t->forward_from[row + node + 1]; at++)
        send_chunk(p, i, node, 2 * k + 1, t->down[row + t->forward[at]]);
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
    send_chunk(p, i, node, 2 * k, t->up[place]);
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

/* Note when a worker's next forward pass begins and ends: each bucket's layers are computed, the last ones first, as
 * soon as their sums are there. Return how long it still takes. */
static double pass_forward(struct player *p, int64_t i, int32_t rank) {
    const struct tables *t = &p->t;
    const double *summed_s = p->iteration[i]->summed_s + rank * t->buckets;
    const double *forward_s = p->forward_s + ((i + 1) * t->workers + rank) * t->buckets;
    double *pass_s = p->passes_s + 2 * (i * t->workers + rank), end_s = pass_s[0] = summed_s[t->buckets - 1];
    for (int64_t bucket = t->buckets; bucket--;)
        end_s = larger(end_s, summed_s[bucket]) + forward_s[bucket];
    pass_s[1] = end_s;
    return larger(0, end_s - p->arena->now_s);
}

/* A worker that has all sums of an iteration, and has sent all that jitter held back, begins the next one. */
static void look(struct player *p, int64_t i, int32_t node) {
    struct iteration *it = p->iteration[i];
    if (p->t.rank[node] < 0 || it->missing[node])
        return;
    struct arena *arena = p->arena;
    if (p->t.jitters) {
        int32_t rank = p->t.rank[node];
        double *sum_s = &p->sums_s[i * p->t.workers + rank];
        *sum_s = *sum_s < 0 ? arena->now_s : *sum_s;
        if (p->held_back[rank])
            return;
        begin_draws(p, rank);
    }
    if (++it->synchronised == p->t.workers || !p->t.together) {
        if (!grow(&arena->told, &arena->told_room, arena->told_count, sizeof *arena->told)) {
            arena->lacks_memory = true;
            return;
        }
        arena->told[arena->told_count++] = (struct told){p->number, node};
    }
    bool is_last = i + 1 == p->iterations;
    if (it->synchronised == p->t.workers && (is_last || (!p->to_the_end && p->opened <= i + 1))) {
        p->is_over = true;
        p->later.count = 0; /* computations that are still under way do not count */
    } else if (i + 1 < p->iterations) {
        begin_worker(p, i + 1, node, p->t.passes ? pass_forward(p, i, p->t.rank[node]) : 0);
    }
}

static void take(struct player *p, int64_t i, int32_t node, int32_t what) {
    const struct tables *t = &p->t;
    int32_t k = what / 2;
    if (what & 1) {
        sum_came(p, i, node, k);
    } else {
        uint32_t *state = &p->iteration[i]->state[k * t->nodes + node];
        int32_t below = t->below[t->klass[k] * t->nodes + node];
        if (below == 1 || (++*state & (SUMMED - 1)) == (uint32_t)below)
            reduced(p, i, node, k);
    }
    p->iteration[i]->missing[node]--;
    p->iteration[i]->left--;
    look(p, i, node);
}

static void come(struct player *p, const struct message *m);

/* A node has its own part of a bucket. */
static void complete(struct player *p, int64_t i, int32_t node, int32_t bucket) {
    struct iteration *it = p->iteration[i];
    int64_t own = node * p->t.buckets + bucket;
    pass_gate(p, i, node, bucket);
    if (p->t.rank[node] >= 0) {
        it->lacks[own] = false;
        it->missing[node]--;
        it->left--;
        int64_t summed = p->t.rank[node] * p->t.buckets + bucket;
        if (p->t.passes && !it->parts[summed]) /* it gets no sum of this bucket, or has them already */
            it->summed_s[summed] = p->arena->now_s;
    }
    look(p, i, node);
    while (it->held[own].first >= 0 && !p->arena->lacks_memory) {
        struct message m = take_first(p, &it->held[own]);
        take(p, i, node, m.what);
        if (!p->t.ordered)
            continue;
        p->is_blocked[m.way] = false;
        while (p->blocked[m.way].first >= 0 && !p->is_blocked[m.way] && !p->arena->lacks_memory) {
            struct message next = take_first(p, &p->blocked[m.way]);
            come(p, &next);
        }
    }
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
        size_t sums = t->passes ? (size_t)(t->workers * t->buckets) : 1;
        it->parts = malloc(sums * sizeof *it->parts);
        it->summed_s = calloc(sums, sizeof *it->summed_s);
    }
    if (!it || !it->parts || !it->summed_s || !it->state || !it->held || !it->lacks || !it->missing) {
        p->arena->lacks_memory = true;
        return;
    }
    for (size_t at = 0; at < own; at++) {
        it->held[at] = (struct line){-1, -1};
        it->lacks[at] = t->rank[(int64_t)at / t->buckets] >= 0;
    }
    if (t->passes)
        memcpy(it->parts, t->parts, (size_t)(t->workers * t->buckets) * sizeof *it->parts);
    for (int64_t node = 0; node < t->nodes; node++)
        it->left += it->missing[node] = t->missing[node];
    for (int32_t node = 0; node < t->nodes; node++)
        for (int32_t bucket = 0; t->rank[node] < 0 && bucket < t->buckets && !p->arena->lacks_memory; bucket++)
            complete(p, i, node, bucket);
}

static void step_is_ready(struct player *p, int32_t rank, int32_t step, double now_s) {
    p->there_s[step] = now_s;
    p->queue[p->t.step_from[rank] + p->agenda[rank].ready++] = step;
}

static void step_lacks_less(struct player *p, int32_t rank, int32_t step, double now_s) {
    if (!--p->lacks[step])
        step_is_ready(p, rank, step, now_s);
}

/* A message that steps need is there: one of the next iteration, if it was before. */
static void tensor_came(struct player *p, int32_t rank, int32_t tensor, double now_s) {
    struct agenda *a = &p->agenda[rank];
    if (!p->is_there[tensor]) {
        p->is_there[tensor] = true;
        step_lacks_less(p, rank, p->t.taker[tensor], now_s);
        return;
    }
    p->early[tensor] = -1;
    if (a->early_first < 0)
        a->early_first = tensor;
    else
        p->early[a->early_last] = tensor;
    a->early_last = tensor;
}

/* Begin the next step, if there is one. Buckets are complete after the last. */
static void go_on(struct player *p, int64_t i, int32_t node) {
    const struct tables *t = &p->t;
    int32_t rank = t->rank[node];
    struct agenda *a = &p->agenda[rank];
    double *notes = p->notes + (i * t->workers + rank) * NOTES;
    if (a->is_busy)
        return;
    if (!a->left) {
        for (int32_t bucket = 0; bucket < t->buckets && !p->arena->lacks_memory; bucket++)
            put_later(p, a->free_s, (struct message){(int32_t)i, ~bucket, node, -1, -1});
        a->is_busy = true; /* until it begins again */
        return;
    }
    if (a->taken == a->ready)
        return;
    bool is_first = !a->taken;
    int32_t step = p->queue[t->step_from[rank] + a->taken++];
    const double *time_s = p->ready_s + i * (t->steps + t->workers);
    double begun_s = larger(p->there_s[step], a->free_s);
    notes[1 + t->phase[step]] += begun_s - a->free_s;
    a->free_s = begun_s + time_s[step] + (is_first ? time_s[t->steps + rank] : 0);
    a->is_busy = true;
    if (t->phase[step] < SUMS)
        notes[0] = a->free_s;
    put_later(p, a->free_s, (struct message){(int32_t)i, (int32_t)~(t->buckets + step), node, -1, -1});
}

static void end_step(struct player *p, int64_t i, int32_t node, int32_t step) {
    const struct tables *t = &p->t;
    int32_t rank = t->rank[node];
    struct agenda *a = &p->agenda[rank];
    for (int32_t m = t->give_from[step]; m < t->give_from[step + 1]; m++)
        if (t->tensor_pair[m] >= 0)
            send(p, i, (int32_t)(2 * t->chunks + m), t->tensor_pair[m]);
    a->is_busy = false;
    a->left--;
    if (t->then[step] >= 0)
        step_lacks_less(p, rank, t->then[step], p->arena->now_s);
    for (int32_t m = t->give_from[step]; m < t->give_from[step + 1]; m++)
        if (t->tensor_pair[m] < 0)
            tensor_came(p, rank, m, p->arena->now_s);
    go_on(p, i, node);
}

static void begin_steps(struct player *p, int64_t i, int32_t node, double now_s) {
    const struct tables *t = &p->t;
    int32_t rank = t->rank[node], first = t->step_from[rank], end = t->step_from[rank + 1];
    struct agenda *a = &p->agenda[rank];
    int32_t early = a->early_first;
    *a = (struct agenda){.left = end - first, .early_first = -1, .free_s = now_s};
    double *notes = p->notes + (i * t->workers + rank) * NOTES;
    for (int at = 0; at < NOTES; at++)
        notes[at] = at ? 0 : now_s;
    for (int32_t step = first; step < end; step++) {
        p->lacks[step] = t->needs[step];
        if (!p->lacks[step])
            step_is_ready(p, rank, step, now_s);
    }
    for (int32_t m = t->taken_from[rank]; m < t->taken_from[rank + 1]; m++)
        p->is_there[t->taken[m]] = false;
    while (early >= 0) {
        int32_t m = early;
        early = p->early[m];
        tensor_came(p, rank, m, now_s);
    }
    go_on(p, i, node);
}

/* Where a worker needs no time, it begins the first iteration at once. */
static void begin_worker(struct player *p, int64_t i, int32_t node, double start_s) {
    if (p->t.steps) {
        if (start_s > 0)
            put_later(p, p->arena->now_s + start_s,
                      (struct message){(int32_t)i, (int32_t)~(p->t.buckets + p->t.steps), node, -1, -1});
        else
            begin_steps(p, i, node, p->arena->now_s + start_s);
        return;
    }
    const double *ready_s = p->ready_s + (i * p->t.workers + p->t.rank[node]) * p->t.buckets;
    for (int32_t bucket = 0; bucket < p->t.buckets && !p->arena->lacks_memory; bucket++) {
        double after_s = start_s + ready_s[bucket];
        if (after_s > 0 || i)
            put_later(p, p->arena->now_s + after_s, (struct message){(int32_t)i, ~bucket, node, -1, -1});
        else
            complete(p, i, node, bucket);
    }
}

/* A message of a chunk has come. Where buckets overtake, one that waits for its bucket blocks its connection. */
static void come(struct player *p, const struct message *m) {
    int64_t own = m->node * p->t.buckets + p->t.bucket[m->what / 2];
    struct iteration *it = p->iteration[m->iteration];
    if (p->t.ordered && p->is_blocked[m->way]) {
        append(p, &p->blocked[m->way], m);
    } else if (!(m->what & 1) && it->lacks[own]) {
        append(p, &it->held[own], m);
        if (p->t.ordered)
            p->is_blocked[m->way] = true;
    } else {
        take(p, m->iteration, m->node, m->what);
    }
}

static void happen(struct player *p, const struct message *m) {
    if (p->is_over)
        return;
    if (m->what < 0) {
        if (m->iteration == p->opened)
            open_next(p);
        int64_t what = ~m->what - p->t.buckets;
        if (p->arena->lacks_memory)
            return;
        if (what < 0)
            complete(p, m->iteration, m->node, ~m->what);
        else if (what < p->t.steps)
            end_step(p, m->iteration, m->node, (int32_t)what);
        else if (what > p->t.steps) {
            send(p, m->iteration, (int32_t)(what - p->t.steps - 1), m->next);
            p->held_back[p->t.rank[m->node]]--;
            look(p, m->iteration, m->node);
        } else
            begin_steps(p, m->iteration, m->node, p->arena->now_s);
    } else if (m->what >= 2 * p->t.chunks) {
        int32_t tensor = (int32_t)(m->what - 2 * p->t.chunks);
        if (++p->parts[tensor] < ways_of(p, p->t.tensor_pair[tensor]))
            return;
        p->parts[tensor] = 0;
        tensor_came(p, p->t.rank[m->node], tensor, p->arena->now_s);
        go_on(p, m->iteration, m->node);
    } else {
        come(p, m);
    }
    if (!p->arena->lacks_memory && !p->iteration[m->iteration]->left)
        forget(p, m->iteration);
}

static void note(struct player *p, const struct message *m) {
    struct arena *a = p->arena;
    if (grow(&a->happened, &a->happened_room, a->happened_count, sizeof *a->happened))
        a->happened[a->happened_count++] = (struct event){p, *m};
    else
        a->lacks_memory = true;
}

/* Begin iterations: double[iterations, workers, buckets] or, where there are steps, double[iterations, steps +
 * workers]: how long steps take, and how much longer the first that each worker takes; double[workers]. `notes` is
 * written, where there are steps: double[iterations, workers, 4], when a worker's gradient was ready, and for how long
 * it had no step to take, by phase. Where steps jitter, `drawn_s` says how late they begin: double[iterations, draws],
 * and `sums_s` is written: double[iterations, workers], when a worker had all sums. Where forward passes begin early,
 * `forward_s` says how long they take: double[iterations, workers, buckets]. Then from the second iteration on buckets
 * are complete after the pass has ended, and `passes_s` is written: double[iterations, workers, 2], when the pass of
 * the next iteration begins and ends. Unless it is to go `to_the_end`, it ends after an iteration at whose end nobody
 * has begun the next.
 */
int player_begin(struct player *p, int64_t iterations, const double *ready_s, const double *start_s,
                 double *notes, const double *drawn_s, double *sums_s, const double *forward_s, double *passes_s,
                 int to_the_end) {
    struct arena *arena = p->arena;
    forget_all(p);
    p->iteration = calloc((size_t)iterations, sizeof *p->iteration);
    if (!p->iteration)
        return NO_MEMORY;
    p->iterations = iterations;
    p->ready_s = ready_s;
    p->notes = notes;
    p->drawn_s = drawn_s;
    p->sums_s = sums_s;
    p->forward_s = forward_s;
    p->passes_s = passes_s;
    for (int64_t m = 0; m < p->t.tensors; m++)
        p->is_there[m] = true; /* until a worker begins, all that comes is early */
    for (int64_t rank = 0; p->t.steps && rank < p->t.workers; rank++)
        p->agenda[rank] = (struct agenda){.early_first = -1, .is_busy = true};
    for (int32_t rank = 0; p->t.jitters && rank < p->t.workers; rank++) {
        begin_draws(p, rank);
        p->held_back[rank] = 0;
    }
    p->is_over = false;
    p->to_the_end = to_the_end;
    arena->is_changing = false;
    arena->events = 0;
    arena->now_s = arena->last_s = arena->n.now(arena->n.state);
    open_next(p);
    for (int64_t rank = 0; rank < p->t.workers && !arena->lacks_memory; rank++)
        begin_worker(p, 0, p->t.node[rank], start_s[rank]);
    return arena->lacks_memory ? NO_MEMORY : 0;
}

/* When a player has something to do next. */
static double later_of(const struct player *p) { return p->later.count ? p->later.of[0].at_s : INFINITY; }

/* When a player has something to do next, if no message comes. */
double arena_later(const struct arena *a) {
    double next_s = INFINITY;
    for (int64_t i = 0; i < a->players; i++)
        next_s = smaller(next_s, later_of(a->player[i]));
    return next_s;
}

/* A message has left. */
static void arrive(struct arena *a, int32_t connection) {
    struct player *p = a->sender[connection].player;
    int32_t way = a->sender[connection].way;
    double came_s = larger(a->now_s + p->t.delay_s[way], p->came_s[way]);
    struct message m = take_first(p, &p->sent[way]);
    p->carried[way] += bits_of(p, m.what);
    if (p->t.ordered && p->sent[way].first < 0 && p->outbox[way].count) /* a network that does not ask */
        hand_over(p, way);
    p->came_s[way] = came_s;
    if (came_s > a->now_s)
        put_later(p, came_s, m);
    else
        note(p, &m);
}

/* Go on until workers have all sums, rates have to be changed at `changes_s`, or enough has happened. */
int arena_step(struct arena *a, double changes_s) {
    int64_t handled = 0;
    while (!a->told_count && handled < SLICE) {
        double later_s;
        a->happened_count = 0;
        while (!a->happened_count && ((later_s = arena_later(a)) < INFINITY || a->n.busy(a->n.state))) {
            if (!a->is_changing) {
                int64_t count = a->n.advance(a->n.state, smaller(changes_s, later_s));
                if (count < 0)
                    return NO_MEMORY;
                a->now_s = a->n.now(a->n.state);
                const int32_t *ended = a->n.ended(a->n.state);
                for (int64_t at = 0; at < count; at++)
                    arrive(a, ended[at]);
                if (count)
                    continue;
                if (changes_s <= a->now_s) {
                    a->is_changing = true; /* what is due at the same moment comes after the change */
                    return CHANGES;
                }
                if (isinf(later_s))
                    break;
            }
            a->is_changing = false;
            for (int64_t i = 0; i < a->players; i++)
                while (later_of(a->player[i]) <= a->now_s) {
                    struct message m = heap_take(&a->player[i]->later);
                    note(a->player[i], &m);
                }
        }
        if (!a->happened_count)
            return OVER;
        a->events = a->now_s == a->last_s ? a->events + a->happened_count : 0;
        a->last_s = a->now_s;
        if (a->events > a->most_at_once)
            return STANDS_STILL;
        for (int64_t at = 0; at < a->happened_count && !a->lacks_memory; at++)
            happen(a->happened[at].player, &a->happened[at].message);
        if (a->lacks_memory)
            return NO_MEMORY;
        handled += a->happened_count;
    }
    return GOES_ON;
}

/* Let no worker begin an iteration from this number on. */
void player_end_after(struct player *p, int64_t iterations) {
    if (iterations < p->iterations)
        p->iterations = iterations;
}

/* By way, the bits that it has got to send until now. Between two iterations the caller may change them. */
double *player_given(struct player *p) { return p->given; }

/* Workers that have all sums of an iteration, and have not been told of: pairs of a player's number and a node. */
const int32_t *arena_told(const struct arena *a) { return (const int32_t *)a->told; }

/* Return how many there are; they count as told. */
int64_t arena_tell(struct arena *a) {
    int64_t count = a->told_count;
    a->told_count = 0;
    return count;
}

/* By way, the number of its connection, -1 before its first message. */
const int32_t *player_connections(const struct player *p) { return p->connection; }

/* Let ways have other links: `path_from` and `path` as in its tables. */
void player_paths(struct player *p, const int32_t *path_from, const int32_t *path) {
    p->t.path_from = path_from;
    p->t.path = path;
}

/* By way, the bits of messages that have ended. */
const double *player_carried(const struct player *p) { return p->carried; }

/* Say on which way a message waits; return its bits, -1 if none does. */
double player_waiting(const struct player *p, int32_t *way) {
    for (int32_t each = 0; each < p->t.ways; each++)
        if (p->sent[each].first >= 0) {
            *way = each;
            return bits_of(p, p->message[p->sent[each].first].what);
        }
    return -1;
}
