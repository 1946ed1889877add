// Which Spillway this is. The commit is in a file that the build writes, see
// cmake/WriteCommit.cmake.
#pragma once

namespace spillway {

extern const char* const source_commit; // "0123456789ab", "0123456789ab, modified" or "unknown"

} // namespace spillway
