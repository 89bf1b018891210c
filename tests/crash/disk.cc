// A disk that forgets at a power cut whatever was not synced: a library for LD_PRELOAD, compiled and used by power.rs.
//
// Calls go on to the real file system, where the process reads what it has written. Beside it, in the folder POWER_CUT_DISK, stands
// what the device would still have: the bytes of each file as of its last fsync or fdatasync, and the names in the folder POWER_CUT_ROOT
// as of its last fsync, so that creating, renaming and unlinking a file are forgotten, too. It is stricter than any file system (ext4
// keeps the name of a new file that was synced); what survives this, survives those.
//
//   listing   a line for each name: the name, a tab, the number of the file
//   NUMBER    the bytes of that file
//   syncs     how many syncs of logs (*.log) have ended, as text
//
// While that folder has a file named `full`, a log takes only the first half of what is written to it; while it has one named `lying`, it
// takes all, and says that the disk is full.
//
// With POWER_CUT_SYNCS=ignored a sync of a log does nothing and succeeds: a test that does not notice that, proves nothing. With slow it
// takes 5 ms, after which the log is kept: what another thread has told of it before, it told too early.

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

template <typename F>
F real(const char* name) {
    return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}
#define REAL(name) (*[] { static auto function = real<decltype(&name)>(#name); return function; }())

struct File {
    int number;
    off_t clean;  // So many of its first bytes are on the disk as they are now.
};

struct Opened {
    ino_t inode;
    bool is_folder, is_log;
};

struct Disk {
    std::recursive_mutex lock;
    std::string root, folder;
    bool ignores_syncs = false, is_slow = false;
    std::map<ino_t, File> files;
    std::map<int, Opened> opened;
    int next = 0;
    long syncs = 0;
};

Disk* disk() {
    static Disk* only = [] {
        auto* disk = new Disk;  // Never freed: calls come until the process has ended.
        const char *root = getenv("POWER_CUT_ROOT"), *folder = getenv("POWER_CUT_DISK");
        if (root && folder) {
            disk->root = root;
            disk->folder = folder;
            const char* syncs = getenv("POWER_CUT_SYNCS");
            disk->ignores_syncs = syncs && syncs == std::string("ignored");
            disk->is_slow = syncs && syncs == std::string("slow");
        }
        return disk;
    }();
    return only;
}

using Locked = std::lock_guard<std::recursive_mutex>;

bool is_below_root(const std::string& path) {
    const std::string& root = disk()->root;
    return !root.empty() && path.compare(0, root.size(), root) == 0 && (path.size() == root.size() || path[root.size()] == '/');
}

bool is_log(const std::string& path) {
    return path.size() > 4 && path.compare(path.size() - 4, 4, ".log") == 0;
}

File& file_of(ino_t inode) {
    auto found = disk()->files.find(inode);
    return found != disk()->files.end() ? found->second : disk()->files[inode] = File{disk()->next++, 0};
}

[[noreturn]] void fail(const char* what) {
    perror(what);
    _exit(99);
}

// Copies what the disk does not have of a file yet.
void keep_file(int descriptor, ino_t inode) {
    struct stat now;
    if (fstat(descriptor, &now) != 0) fail("power cut: fstat");
    File& file = file_of(inode);
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor), kept = disk()->folder + "/" + std::to_string(file.number);
    int from = REAL(open)(path.c_str(), O_RDONLY | O_CLOEXEC), to = REAL(open)(kept.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (from < 0 || to < 0 || REAL(ftruncate)(to, std::min(file.clean, now.st_size)) != 0) fail("power cut: open");
    std::vector<char> bytes(1 << 16);
    for (off_t at = std::min(file.clean, now.st_size); at < now.st_size;) {
        ssize_t count = pread(from, bytes.data(), bytes.size(), at);
        if (count <= 0 || REAL(pwrite)(to, bytes.data(), count, at) != count) fail("power cut: copy");
        at += count;
    }
    file.clean = now.st_size;
    REAL(close)(from);
    REAL(close)(to);
}

void keep_text(const char* name, const std::string& text) {
    const std::string path = disk()->folder + "/" + name, beside = path + ".new";
    int to = REAL(open)(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (to < 0 || REAL(write)(to, text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail("power cut: write");
    REAL(close)(to);
    if (REAL(rename)(beside.c_str(), path.c_str()) != 0) fail("power cut: rename");
}

void keep_names() {
    DIR* folder = opendir(disk()->root.c_str());
    if (!folder) fail("power cut: opendir");
    std::string text;
    while (dirent* entry = readdir(folder)) {
        struct stat about;
        const std::string path = disk()->root + "/" + entry->d_name;
        if (stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode)) {
            text += std::string(entry->d_name) + "\t" + std::to_string(file_of(about.st_ino).number) + "\n";
        }
    }
    closedir(folder);
    keep_text("listing", text);
}

// What is there at the start, the disk has.
__attribute__((constructor)) void begin() {
    if (disk()->root.empty()) return;
    Locked locked(disk()->lock);
    if (DIR* folder = opendir(disk()->root.c_str())) {
        while (dirent* entry = readdir(folder)) {
            const std::string path = disk()->root + "/" + entry->d_name;
            struct stat about;
            int file = REAL(open)(path.c_str(), O_RDONLY | O_CLOEXEC);
            if (file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode)) keep_file(file, about.st_ino);
            if (file >= 0) REAL(close)(file);
        }
        closedir(folder);
        keep_names();
    }
}

int note_opened(int descriptor, const char* path) {
    if (descriptor < 0 || path[0] != '/' || !is_below_root(path)) return descriptor;
    Locked locked(disk()->lock);
    struct stat about;
    if (fstat(descriptor, &about) == 0) {
        disk()->opened[descriptor] = {about.st_ino, S_ISDIR(about.st_mode) != 0, is_log(path)};
        if (S_ISREG(about.st_mode)) {
            File& file = file_of(about.st_ino);
            file.clean = std::min(file.clean, about.st_size);  // It may have been truncated.
        }
    }
    return descriptor;
}

// That bytes from an offset on are about to change.
void note_written(int descriptor, off_t offset) {
    Locked locked(disk()->lock);
    auto found = disk()->opened.find(descriptor);
    if (found == disk()->opened.end() || found->second.is_folder) return;
    File& file = file_of(found->second.inode);
    file.clean = std::min(file.clean, offset);
}

void note_appended(int descriptor) {
    if (disk()->root.empty()) return;
    struct stat about;
    const bool appends = (fcntl(descriptor, F_GETFL) & O_APPEND) && fstat(descriptor, &about) == 0;
    note_written(descriptor, appends ? about.st_size : lseek(descriptor, 0, SEEK_CUR));
}

bool is_log(int descriptor) {
    Locked locked(disk()->lock);
    auto found = disk()->opened.find(descriptor);
    return found != disk()->opened.end() && found->second.is_log;
}

bool is_log_while(int descriptor, const char* state) {
    return is_log(descriptor) && access((disk()->folder + "/" + state).c_str(), F_OK) == 0;
}

int sync(int descriptor, int (*really)(int)) {
    if (disk()->is_slow && is_log(descriptor)) usleep(5000);
    {
        Locked locked(disk()->lock);
        auto found = disk()->opened.find(descriptor);
        if (found != disk()->opened.end()) {
            const Opened opened = found->second;
            if (opened.is_log && disk()->ignores_syncs) return 0;
            if (opened.is_folder) {
                keep_names();
            } else {
                keep_file(descriptor, opened.inode);
            }
            if (opened.is_log) keep_text("syncs", std::to_string(++disk()->syncs));
            return 0;  // This is the disk; the real one need not be troubled.
        }
    }
    return really(descriptor);
}

// A file that loses its last name is gone; another may get its inode. What the disk has of it stays, since its name may, too.
struct LastName {
    bool was_last;
    ino_t inode;
    explicit LastName(const char* path) {
        struct stat about;
        was_last = is_below_root(path) && lstat(path, &about) == 0 && about.st_nlink == 1;
        inode = was_last ? about.st_ino : 0;
    }
    void gone() const {
        if (was_last) disk()->files.erase(inode);
    }
};

mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

}  // namespace

extern "C" {

#define OPEN(name)                                                                                                       \
    int name(const char* path, int flags, ...) {                                                                        \
        va_list rest;                                                                                                    \
        va_start(rest, flags);                                                                                           \
        mode_t mode = mode_of(flags, rest);                                                                              \
        va_end(rest);                                                                                                    \
        return note_opened(REAL(name)(path, flags, mode), path);                                                         \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                                     \
    int name(int folder, const char* path, int flags, ...) {                                                            \
        va_list rest;                                                                                                    \
        va_start(rest, flags);                                                                                           \
        mode_t mode = mode_of(flags, rest);                                                                              \
        va_end(rest);                                                                                                    \
        return note_opened(REAL(name)(folder, path, flags, mode), path);                                                 \
    }
OPENAT(openat)
OPENAT(openat64)

int close(int descriptor) {
    {
        Locked locked(disk()->lock);
        disk()->opened.erase(descriptor);
    }
    return REAL(close)(descriptor);
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
    static thread_local bool was_halved = false;
    if (is_log_while(descriptor, "full")) {
        was_halved = !was_halved && count > 1;
        if (!was_halved) return errno = ENOSPC, -1;
        count /= 2;
    }
    note_appended(descriptor);
    const ssize_t written = REAL(write)(descriptor, bytes, count);
    return is_log_while(descriptor, "lying") ? (errno = ENOSPC, -1) : written;
}

ssize_t writev(int descriptor, const struct iovec* pieces, int count) {
    note_appended(descriptor);
    return REAL(writev)(descriptor, pieces, count);
}

ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
    note_written(descriptor, offset);
    return REAL(pwrite)(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off64_t offset) {
    note_written(descriptor, offset);
    return REAL(pwrite64)(descriptor, bytes, count, offset);
}

int ftruncate(int descriptor, off_t length) {
    note_written(descriptor, length);
    return REAL(ftruncate)(descriptor, length);
}

int ftruncate64(int descriptor, off64_t length) {
    note_written(descriptor, length);
    return REAL(ftruncate64)(descriptor, length);
}

int fsync(int descriptor) { return sync(descriptor, REAL(fsync)); }

int fdatasync(int descriptor) { return sync(descriptor, REAL(fdatasync)); }

int unlink(const char* path) {
    Locked locked(disk()->lock);
    LastName name(path);
    int outcome = REAL(unlink)(path);
    if (outcome == 0) name.gone();
    return outcome;
}

int rename(const char* from, const char* to) {
    Locked locked(disk()->lock);
    LastName replaced(to);
    int outcome = REAL(rename)(from, to);
    if (outcome == 0) replaced.gone();
    return outcome;
}

}  // extern "C"
