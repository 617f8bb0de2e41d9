/* Rows of the sums that C++ asks for, as DDP does for its gradients, in an arm whose groups are PyTorch's own.
 *
 * Problem: gloo.py has a kernel in Python in front of each operator of c10d. A call takes 0.2 ms through an empty one,
 * and 0.3 ms through that of gloo.py, where a loop of nothing else takes 0.08 ms: Python's code and data have probably
 * left the processor's caches since the last call. With two buckets that is 2 to 4 % of a step of 16 ms.
 *
 * Chosen: a kernel in C++ for allreduce, in front of that in Python. It makes the row itself if nothing in Python takes
 * part: the group is watched, its tensors are such as a scheme adds, and no wrapper of Python's is on the thread's stack
 * (watcher_python). Any other call goes on to the kernel in Python. Lines are written as rows.py writes them.
 *
 * Set-up compiles it for the PyTorch that is installed there; watcher.py takes it for no other one.
 */

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/library.h>
#include <torch/version.h>

#include <cstdio>
#include <ctime>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unistd.h>
#include <unordered_map>

namespace {

constexpr int VERSION = 1; /* watcher.py takes no other one */
constexpr size_t LINE_BYTES = 512;

struct Row {
    int64_t group, number, nbytes;
    int ranks;
    const char *dtype;
    double asked_s = 0, held_s = 0, done_s = 0; /* 0: not yet */
    bool failed = false, refused = false;       /* refused: it did not begin, and never ends */
};

using Rows = std::list<std::shared_ptr<Row>>;
using Failed = void (*)(int64_t group, int64_t number, const char *kind, const char *why);

std::mutex lock; /* of all that follows but what is the thread's own */
std::unordered_map<const c10d::ProcessGroup *, std::pair<c10::weak_intrusive_ptr<c10d::ProcessGroup>, int64_t>> groups;
/* a weak pointer keeps an address from being another group's */
std::unordered_map<int64_t, int64_t> numbers;
Rows rows;
int64_t calls, call_bytes;
Failed told = nullptr;
pid_t own;
thread_local int in_python; /* wrappers of Python's on this thread's stack */

double now_s() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/* The name of a type that schemes add; else null. */
const char *summed(at::ScalarType type) {
    switch (type) {
        case at::kFloat: return "float32";
        case at::kDouble: return "float64";
        case at::kHalf: return "float16";
        case at::kBFloat16: return "bfloat16";
        case at::kInt: return "int32";
        case at::kLong: return "int64";
        default: return nullptr;
    }
}

/* The name of an error's class in Python. */
const char *kind_of(const std::exception &error) {
    return dynamic_cast<const c10::DistBackendError *>(&error) ? "DistBackendError"
        : dynamic_cast<const c10::ValueError *>(&error)        ? "ValueError"
        : dynamic_cast<const c10::TypeError *>(&error)         ? "TypeError"
        : dynamic_cast<const c10::IndexError *>(&error)        ? "IndexError"
                                                               : "RuntimeError";
}

/* Tell Python, once; without our lock, since this waits for the interpreter's. */
void fails(Row &row, const std::exception &error) {
    Failed tell;
    {
        std::lock_guard<std::mutex> held(lock);
        tell = row.failed ? nullptr : told;
        row.failed = true;
    }
    if (tell)
        tell(row.group, row.number, kind_of(error), error.what());
}

/* Begin a row; null where the kernel in Python has to. */
std::shared_ptr<Row> begin(c10::DispatchKeySet keys, const torch::jit::Stack &stack, size_t arguments) {
    const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::ADInplaceOrView);
    if (in_python || below.highestPriorityTypeId() != c10::DispatchKey::BackendSelect || getpid() != own)
        return nullptr; /* between the two are modes of Python's, which trace */
    const auto first = stack.end() - static_cast<std::ptrdiff_t>(arguments);
    if (!first[0].isTensorList())
        return nullptr;
    const auto list = first[0].toTensorList();
    const char *dtype = nullptr;
    int64_t nbytes = 0;
    for (size_t i = 0; i < list.size(); i++) {
        const at::Tensor tensor = list.get(i);
        const char *type = tensor.layout() == at::kStrided ? summed(tensor.scalar_type()) : nullptr;
        if (!type)
            return nullptr;
        dtype = dtype ? dtype : type;
        nbytes += tensor.numel() * static_cast<int64_t>(tensor.element_size());
    }
    const auto group = first[1].toCustomClass<c10d::ProcessGroup>();
    std::lock_guard<std::mutex> held(lock);
    const auto watched = groups.find(group.get());
    if (!dtype || watched == groups.end())
        return nullptr;
    auto row = std::make_shared<Row>();
    row->group = watched->second.second;
    row->number = numbers[row->group]++;
    row->nbytes = nbytes;
    row->ranks = group->getSize();
    row->dtype = dtype;
    rows.push_back(row);
    calls++;
    call_bytes += nbytes;
    return row;
}

/* Have a row end with its collective. */
void follow(const std::shared_ptr<Row> &row, const c10::intrusive_ptr<c10d::Work> &work) {
    work->getFuture()->addCallback([row](c10::ivalue::Future &future) {
        const double at_s = now_s();
        if (future.hasError()) {
            try {
                std::rethrow_exception(future.exception_ptr());
            } catch (const std::exception &error) {
                fails(*row, error);
            }
        }
        std::lock_guard<std::mutex> held(lock);
        row->done_s = at_s;
    });
}

void allreduce(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
    const double asked_s = now_s();
    auto row = begin(keys, *stack, op.schema().arguments().size());
    if (!row) {
        op.redispatchBoxed(
            keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::ADInplaceOrView), stack);
        return;
    }
    row->asked_s = asked_s;
    try {
        op.redispatchBoxed(
            keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect), stack);
    } catch (const std::exception &error) {
        fails(*row, error);
        std::lock_guard<std::mutex> held(lock);
        row->refused = true;
        throw;
    }
    follow(row, stack->back().toCustomClass<c10d::Work>());
    const double at_s = now_s();
    std::lock_guard<std::mutex> held(lock);
    row->held_s = at_s;
}

/* Watch a group, whose rows get a number: an operator, as only so Python can hand a group over. */
void watch(const c10::OperatorHandle &, torch::jit::Stack *stack) {
    const auto number = torch::jit::pop(*stack).toInt();
    const auto group = torch::jit::pop(*stack).toCustomClass<c10d::ProcessGroup>();
    std::lock_guard<std::mutex> held(lock);
    groups.insert_or_assign(group.get(), std::make_pair(c10::weak_intrusive_ptr<c10d::ProcessGroup>(group), number));
}

/* Write a row's line; how long it is. A result that was there before the call came back is the script's from then on. */
int64_t write(const Row &row, char *into) {
    const double done_s = row.done_s < row.held_s ? row.held_s : row.done_s;
    return snprintf(
        into, LINE_BYTES,
        "{\"kind\": \"call\", \"op\": \"allreduce\", \"dtype\": \"%s\", \"bytes\": %lld, \"ranks\": %d, \"group\": %lld, "
        "\"by\": \"scheme\", \"seq\": %lld, \"asked_s\": %.9f, \"begun_s\": %.9f, \"asking_s\": %.9f, \"done_s\": %.9f, "
        "\"waited_s\": null}\n",
        row.dtype, static_cast<long long>(row.nbytes), row.ranks, static_cast<long long>(row.group),
        static_cast<long long>(row.number), row.asked_s, row.asked_s, row.held_s - row.asked_s, done_s);
}

} // namespace

extern "C" {

int watcher_version() { return VERSION; }

const char *watcher_torch() { return TORCH_VERSION; }

/* Begin to watch, once in a process; `failed` is told of each collective that fails, on any thread. */
void watcher_begin(Failed failed) {
    own = getpid();
    told = failed;
    /* Never freed: at the end of a process, the dispatcher may be gone before. */
    auto *ours = new torch::Library(torch::Library::DEF, "testbed_watcher", std::nullopt, __FILE__, __LINE__);
    ours->def(
        "watch(__torch__.torch.classes.c10d.ProcessGroup group, int number) -> ()",
        torch::CppFunction::makeFromBoxedFunction<&watch>());
    auto *theirs = new torch::Library(torch::Library::IMPL, "c10d", c10::DispatchKey::ADInplaceOrView, __FILE__, __LINE__);
    theirs->impl("allreduce_", torch::CppFunction::makeFromBoxedFunction<&allreduce>());
}

/* Tell Python of no more failures: it ends. */
void watcher_end() {
    std::lock_guard<std::mutex> held(lock);
    told = nullptr;
}

/* Enter (1) or leave (-1) a wrapper of Python's, which makes rows itself. */
void watcher_python(int change) { in_python += change; }

/* The number of a group's next collective. */
int64_t watcher_number(int64_t group) {
    std::lock_guard<std::mutex> held(lock);
    return numbers[group]++;
}

/* How many collectives have not ended yet. */
int64_t watcher_open() {
    std::lock_guard<std::mutex> held(lock);
    int64_t found = 0;
    for (const auto &row : rows)
        found += !row->refused && row->done_s == 0;
    return found;
}

/* Write the lines of rows that are complete, as far as there is room, and forget them; how many bytes. `count` and
 * `nbytes` get what was asked for so far, complete or not. */
int64_t watcher_take(char *into, int64_t room, int64_t *count, int64_t *nbytes) {
    std::lock_guard<std::mutex> held(lock);
    int64_t used = 0;
    *count = calls;
    *nbytes = call_bytes;
    for (auto next = rows.begin(); next != rows.end() && room - used >= static_cast<int64_t>(LINE_BYTES);) {
        const Row &row = **next;
        const bool is_complete = row.done_s > 0 && row.held_s > 0;
        if (is_complete)
            used += write(row, into + used);
        next = is_complete || row.refused ? rows.erase(next) : std::next(next);
    }
    return used;
}
}
