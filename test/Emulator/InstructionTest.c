/* InstructionTest.c - one instruction at a time: sources in, a word out.
 *
 * Why it exists: every family of the emulator's table, with words that were computed with exact
 * integers and another language's floating point, not with the emulator's own expressions.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Emulator/Support.h"

#include <inttypes.h>

/* The instruction reads %h1.., %r1.., %l1.. (16, 32 and 64 bits of a, b, c) and %p1 (bit 0 of a),
 * and writes number 10 of the result's kind. */
typedef struct row_t {
  const char *instruction;
  char result; /* h, r, l or p */
  uint64_t a, b, c, expected;
} row_t;

/* Integer arithmetic. */
static const row_t integer_rows[] = {
    {"add.s32 %r10, %r1, %r2;", 'r', 0x89abcdef, 0x12345679, 0, 0x9be02468},
    {"add.u64 %l10, %l1, %l2;", 'l', 0x89abcdef01234567, 0xfedcba9876543211, 0, 0x8888888777777778},
    {"add.s16 %h10, %h1, %h2;", 'h', 0xffff, 2, 0, 1},
    {"sub.s32 %r10, %r1, 1;", 'r', 0, 0, 0, 0xffffffff},
    {"sub.s64 %l10, %l1, %l2;", 'l', 3, 5, 0, 0xfffffffffffffffe},
    {"sub.u16 %h10, %h1, %h2;", 'h', 3, 5, 0, 0xfffe},
    {"mul.lo.s32 %r10, %r1, %r2;", 'r', 0x89abcdef, 0x12345679, 0, 0x6bee9ff7},
    {"mul.lo.u64 %l10, %l1, %l2;", 'l', 0x89abcdef01234567, 0xfedcba9876543211, 0,
     0x937607d036b1b9d7},
    {"mul.lo.s16 %h10, %h1, %h2;", 'h', 0x1234, 0x5678, 0, 0x60},
    {"mul.hi.u32 %r10, %r1, %r2;", 'r', 0x89abcdef, 0x12345679, 0, 0x9ca39e1},
    {"mul.hi.s32 %r10, %r1, %r2;", 'r', 0x89abcdef, 0x12345679, 0, 0xf795e368},
    {"mul.hi.u64 %l10, %l1, %l2;", 'l', 0x89abcdef01234567, 0xfedcba9876543211, 0,
     0x890f2a50edca5e20},
    {"mul.hi.s64 %l10, %l1, %l2;", 'l', 0x89abcdef01234567, 0xfedcba9876543211, 0,
     0x86a1c97652e6a8},
    {"mul.hi.u16 %h10, %h1, %h2;", 'h', 0xffff, 0x8001, 0, 0x8000},
    {"mul.hi.s16 %h10, %h1, %h2;", 'h', 0xffff, 0x7001, 0, 0xffff},
    {"mul.wide.u32 %l10, %r1, %r2;", 'l', 0x89abcdef, 0x12345679, 0, 0x9ca39e16bee9ff7},
    {"mul.wide.s32 %l10, %r1, %r2;", 'l', 0x89abcdef, 0x12345679, 0, 0xf795e3686bee9ff7},
    {"mul.wide.u16 %r10, %h1, %h2;", 'r', 0xffff, 0xfffe, 0, 0xfffd0002},
    {"mul.wide.s16 %r10, %h1, %h2;", 'r', 0xffff, 0x7ffe, 0, 0xffff8002},
    {"mad.lo.s32 %r10, %r1, %r2, %r3;", 'r', 0x89abcdef, 0x12345679, 7, 0x6bee9ffe},
    {"mad.lo.s64 %l10, %l1, %l2, %l3;", 'l', 0x89abcdef01234567, 0xfedcba9876543211, 9,
     0x937607d036b1b9e0},
    {"mad.hi.u32 %r10, %r1, %r2, %r3;", 'r', 0x89abcdef, 0x12345679, 5, 0x9ca39e6},
    {"mad.wide.s32 %l10, %r1, %r2, %l3;", 'l', 0x89abcdef, 0x12345679, 0x10000000000,
     0xf795e4686bee9ff7},
    {"mad.wide.u32 %l10, %r1, %r2, %l3;", 'l', 0x89abcdef, 0x12345679, 0x10000000000,
     0x9ca3ae16bee9ff7},
    {"div.u32 %r10, %r1, %r2;", 'r', 0x89abcdef, 0x3e8, 0, 0x233e69},
    {"div.s32 %r10, %r1, %r2;", 'r', 0xfffffffffffffff9, 2, 0, 0xfffffffd},
    {"div.s32 %r10, %r1, %r2;", 'r', 0x80000000, 0xffffffff, 0, 0x80000000},
    {"div.u64 %l10, %l1, %l2;", 'l', 0x89abcdef01234567, 0x3039, 0, 0x2dadb10d6b1c8},
    {"div.s64 %l10, %l1, %l2;", 'l', 0xffffffffffffff9c, 7, 0, 0xfffffffffffffff2},
    {"rem.u32 %r10, %r1, %r2;", 'r', 0x89abcdef, 0x3e8, 0, 0x3c7},
    {"rem.s32 %r10, %r1, %r2;", 'r', 0xfffffffffffffff9, 2, 0, 0xffffffff},
    {"rem.s64 %l10, %l1, %l2;", 'l', 0xffffffffffffff9c, 7, 0, 0xfffffffffffffffe},
    {"rem.u64 %l10, %l1, %l2;", 'l', 0x89abcdef01234567, 0x3039, 0, 0x2fdf},
    {"min.s32 %r10, %r1, %r2;", 'r', 0xffffffffffffffff, 1, 0, 0xffffffff},
    {"min.u32 %r10, %r1, %r2;", 'r', 0xffffffffffffffff, 1, 0, 1},
    {"max.s32 %r10, %r1, %r2;", 'r', 0xffffffffffffffff, 1, 0, 1},
    {"max.relu.s32 %r10, %r1, %r2;", 'r', 0xffffffffffffffff, 0xfffffffe, 0, 0},
    {"max.relu.s32 %r10, %r1, %r2;", 'r', 0x80000000, 5, 0, 5},
    {"min.relu.s32 %r10, %r1, %r2;", 'r', 0xffffffffffffffff, 5, 0, 0},
    {"min.relu.s32 %r10, %r1, %r2;", 'r', 7, 5, 0, 5},
    {"max.u16x2 %r10, %r1, %r2;", 'r', 0x80017fff, 0x7fff8000, 0, 0x80018000},
    {"min.u16x2 %r10, %r1, %r2;", 'r', 0x80017fff, 0x7fff8000, 0, 0x7fff7fff},
    {"max.u32 %r10, %r1, %r2;", 'r', 0xffffffffffffffff, 1, 0, 0xffffffff},
    {"min.s64 %l10, %l1, %l2;", 'l', 0xffffffffffffffff, 1, 0, 0xffffffffffffffff},
    {"max.u64 %l10, %l1, %l2;", 'l', 0xffffffffffffffff, 1, 0, 0xffffffffffffffff},
    {"min.s16 %h10, %h1, %h2;", 'h', 0x8000, 1, 0, 0x8000},
    {"max.s16 %h10, %h1, %h2;", 'h', 0x8000, 1, 0, 1},
    {"abs.s32 %r10, %r1;", 'r', 0xfffffffffffffffb, 0, 0, 5},
    {"abs.s64 %l10, %l1;", 'l', 0xfffffffffffffffb, 0, 0, 5},
    {"neg.s32 %r10, %r1;", 'r', 5, 0, 0, 0xfffffffb},
    {"neg.s64 %l10, %l1;", 'l', 5, 0, 0, 0xfffffffffffffffb},
};

/* Bits, shifts, fields, permutations and moves. */
static const row_t bits_rows[] = {
    {"and.b32 %r10, %r1, %r2;", 'r', 0x89abcdef, 0x12345679, 0, 0x204469},
    {"or.b64 %l10, %l1, %l2;", 'l', 0x89abcdef01234567, 0xfedcba9876543211, 0, 0xffffffff77777777},
    {"xor.b16 %h10, %h1, %h2;", 'h', 0xf0f0, 0xff00, 0, 0xff0},
    {"not.b16 %h10, %h1;", 'h', 0xf0f0, 0, 0, 0xf0f},
    {"not.b32 %r10, %r1;", 'r', 0x89abcdef, 0, 0, 0x76543210},
    {"shl.b32 %r10, %r1, %r2;", 'r', 0x89abcdef, 4, 0, 0x9abcdef0},
    {"shl.b32 %r10, %r1, %r2;", 'r', 0x89abcdef, 0x20, 0, 0},
    {"shl.b64 %l10, %l1, %r2;", 'l', 0x89abcdef01234567, 0x28, 0, 0x2345670000000000},
    {"shr.u32 %r10, %r1, %r2;", 'r', 0x89abcdef, 4, 0, 0x89abcde},
    {"shr.s32 %r10, %r1, %r2;", 'r', 0x89abcdef, 4, 0, 0xf89abcde},
    {"shr.s32 %r10, %r1, %r2;", 'r', 0x89abcdef, 0x63, 0, 0xffffffff},
    {"shr.u64 %l10, %l1, %r2;", 'l', 0x89abcdef01234567, 0x40, 0, 0},
    {"shr.s64 %l10, %l1, %r2;", 'l', 0x89abcdef01234567, 8, 0, 0xff89abcdef012345},
    {"shr.s16 %h10, %h1, %r2;", 'h', 0x8000, 3, 0, 0xf000},
    {"shf.l.wrap.b32 %r10, %r1, %r2, %r3;", 'r', 0x89abcdef, 0x12345679, 0x24, 0x23456798},
    {"shf.l.clamp.b32 %r10, %r1, %r2, %r3;", 'r', 0x89abcdef, 0x12345679, 0x24, 0x89abcdef},
    {"shf.r.wrap.b32 %r10, %r1, %r2, %r3;", 'r', 0x89abcdef, 0x12345679, 0x24, 0x989abcde},
    {"shf.r.clamp.b32 %r10, %r1, %r2, %r3;", 'r', 0x89abcdef, 0x12345679, 0x24, 0x12345679},
    {"popc.b32 %r10, %r1;", 'r', 0x89abcdef, 0, 0, 0x14},
    {"popc.b64 %r10, %l1;", 'r', 0x89abcdef01234567, 0, 0, 0x20},
    {"clz.b32 %r10, %r1;", 'r', 0x12345, 0, 0, 0xf},
    {"clz.b32 %r10, %r1;", 'r', 0, 0, 0, 0x20},
    {"clz.b64 %r10, %l1;", 'r', 1, 0, 0, 0x3f},
    {"brev.b32 %r10, %r1;", 'r', 0x89abcdef, 0, 0, 0xf7b3d591},
    {"brev.b64 %l10, %l1;", 'l', 0x89abcdef01234567, 0, 0, 0xe6a2c480f7b3d591},
    {"bfe.u32 %r10, %r1, 8, 12;", 'r', 0x89abcdef, 0, 0, 0xbcd},
    {"bfe.s32 %r10, %r1, 8, 8;", 'r', 0xcd00, 0, 0, 0xffffffcd},
    {"bfe.s32 %r10, %r1, 28, 12;", 'r', 0x89abcdef, 0, 0, 0xfffffff8},
    {"bfe.u32 %r10, %r1, 40, 4;", 'r', 0x89abcdef, 0, 0, 0},
    {"bfe.u32 %r10, %r1, 4, 0;", 'r', 0x89abcdef, 0, 0, 0},
    {"bfe.u64 %l10, %l1, 20, 30;", 'l', 0x89abcdef01234567, 0, 0, 0x3cdef012},
    {"bfe.s64 %l10, %l1, 60, 4;", 'l', 0x89abcdef01234567, 0, 0, 0xfffffffffffffff8},
    {"bfi.b32 %r10, %r1, %r2, 8, 12;", 'r', 0x89abcdef, 0x12345679, 0, 0x123def79},
    {"bfi.b32 %r10, %r1, %r2, 28, 12;", 'r', 0x89abcdef, 0x12345679, 0, 0xf2345679},
    {"bfi.b64 %l10, %l1, %l2, 33, 5;", 'l', 0x89abcdef01234567, 0xfedcba9876543211, 0,
     0xfedcba8e76543211},
    {"prmt.b32 %r10, %r1, %r2, 0x7531;", 'r', 0x89abcdef, 0x12345679, 0, 0x125689cd},
    {"prmt.b32 %r10, %r1, %r2, 0x8C09;", 'r', 0x89abcdef, 0x12345679, 0, 0xff00efff},
    {"prmt.b32.f4e %r10, %r1, %r2, 1;", 'r', 0x89abcdef, 0x12345679, 0, 0x7989abcd},
    {"prmt.b32.rc16 %r10, %r1, %r2, 1;", 'r', 0x89abcdef, 0x12345679, 0, 0x89ab89ab},
    {"prmt.b32.ecl %r10, %r1, %r2, 2;", 'r', 0x89abcdef, 0x12345679, 0, 0x89ababab},
    {"prmt.b32.ecr %r10, %r1, %r2, 1;", 'r', 0x89abcdef, 0x12345679, 0, 0xcdcdcdef},
    {"lop3.b32 %r10, %r1, %r2, %r3, 0x96;", 'r', 0x89abcdef, 0x12345679, 0xf1e2d3c, 0x9481b6aa},
    {"lop3.b32 %r10, %r1, %r2, %r3, 0xE8;", 'r', 0x89abcdef, 0x12345679, 0xf1e2d3c, 0xb3e4d7d},
    {"lop3.b32 %r10, %r1, %r2, %r3, 0x02;", 'r', 0x89abcdef, 0x12345679, 0xf1e2d3c, 0x4002000},
    {"selp.b32 %r10, %r1, %r2, %p1;", 'r', 0x89abcdef, 0x12345679, 0, 0x89abcdef},
    {"selp.b64 %l10, %l1, %l2, %p1;", 'l', 0x89abcdef01234566, 0xfedcba9876543211, 0,
     0xfedcba9876543211},
    {"mov.b32 %r10, {%h2, %h1};", 'r', 0x1234, 0x5678, 0, 0x12345678},
    {"mov.b32 {%h11, %h10}, %r1;", 'h', 0x89abcdef, 0, 0, 0x89ab},
    {"mov.b64 {%r11, %r10}, %l1;", 'r', 0x89abcdef01234567, 0, 0, 0x89abcdef},
    {"mov.b64 %l10, {%h1, %h2, %h3, %h1};", 'l', 0x1111, 0x2222, 0x3333, 0x1111333322221111},
    {"bfind.u32 %r10, %r1;", 'r', 0x12345, 0, 0, 0x10},
    {"bfind.s32 %r10, %r1;", 'r', 0xfffffffffffffffe, 0, 0, 0},
    {"bfind.u32 %r10, %r1;", 'r', 0, 0, 0, 0xffffffff},
    {"slct.u32.s32 %r10, %r1, %r2, %r3;", 'r', 0x89abcdef, 0x12345679, 0xffffffffffffffff,
     0x12345679},
};

/* Comparisons. */
static const row_t compare_rows[] = {
    {"setp.lt.s32 %p10, %r1, %r2;", 'p', 0xffffffffffffffff, 1, 0, 1},
    {"setp.lt.u32 %p10, %r1, %r2;", 'p', 0xffffffffffffffff, 1, 0, 0},
    {"setp.hi.u32 %p10, %r1, %r2;", 'p', 0xffffffffffffffff, 1, 0, 1},
    {"setp.ls.u32 %p10, %r1, %r2;", 'p', 1, 1, 0, 1},
    {"setp.ge.s64 %p10, %l1, %l2;", 'p', 0xffffffffffffffff, 0xffffffffffffffff, 0, 1},
    {"setp.ne.b64 %p10, %l1, %l2;", 'p', 0x10000000000, 0, 0, 1},
    {"setp.gt.s16 %p10, %h1, %h2;", 'p', 0x8000, 0, 0, 0},
    {"setp.eq.b16 %p10, %h1, %h2;", 'p', 5, 5, 0, 1},
    {"setp.eq.f32 %p10, %r1, %r2;", 'p', 0x7fc00000, 0x7fc00000, 0, 0},
    {"setp.neu.f32 %p10, %r1, %r2;", 'p', 0x7fc00000, 0, 0, 1},
    {"setp.ne.f32 %p10, %r1, %r2;", 'p', 0x7fc00000, 0, 0, 0},
    {"setp.ltu.f32 %p10, %r1, %r2;", 'p', 0x7fc00000, 0, 0, 1},
    {"setp.eq.f32 %p10, %r1, %r2;", 'p', 0x80000000, 0, 0, 1},
    {"setp.nan.f32 %p10, %r1, %r2;", 'p', 0, 0x7f800001, 0, 1},
    {"setp.num.f32 %p10, %r1, %r2;", 'p', 0, 1, 0, 1},
    {"setp.gt.f32 %p10, %r1, %r2;", 'p', 0x7f800000, 0x7f7fffff, 0, 1},
    {"setp.ge.bf16 %p10, %h1, %h2;", 'p', 0x3f80, 0x3f81, 0, 0},
    {"setp.lt.and.s32 %p10, %r1, %r2, %p1;", 'p', 1, 2, 0, 1},
    {"setp.lt.and.s32 %p10, %r1, %r2, !%p1;", 'p', 1, 2, 0, 0},
    {"setp.lt.or.s32 %p10, %r1, %r2, %p1;", 'p', 3, 2, 0, 1},
    {"setp.lt.xor.s32 %p10, %r1, %r2, %p1;", 'p', 1, 2, 0, 0},
    {"setp.lt.s32 %p11|%p10, %r1, %r2;", 'p', 1, 2, 0, 0},
};

/* fp32 and fp64. */
static const row_t float_rows[] = {
    {"add.rn.f32 %r10, %r1, %r2;", 'r', 0x3fc00000, 0x40100000, 0, 0x40700000},
    {"add.rn.f32 %r10, %r1, %r2;", 'r', 0x3f800000, 0x33800000, 0, 0x3f800000},
    {"add.rn.f32 %r10, %r1, %r2;", 'r', 0x3f800001, 0x33800000, 0, 0x3f800002},
    {"add.rn.f32 %r10, %r1, %r2;", 'r', 0x7f800000, 0xff800000, 0, 0x7fffffff},
    {"add.rn.f32 %r10, %r1, %r2;", 'r', 1, 1, 0, 2},
    {"sub.rn.f32 %r10, %r1, %r2;", 'r', 0x3f800000, 0x3f800000, 0, 0},
    {"mul.rn.f32 %r10, %r1, %r2;", 'r', 0x40400000, 0xc0e00000, 0, 0xc1a80000},
    {"mul.rn.f32 %r10, %r1, %r2;", 'r', 0x800000, 0x3f000000, 0, 0x400000},
    {"mul.rn.f32 %r10, %r1, %r2;", 'r', 0x7f800000, 0, 0, 0x7fffffff},
    {"mul.rn.f32 %r10, %r1, %r2;", 'r', 0xffc12345, 0x3f800000, 0, 0x7fffffff},
    {"fma.rn.f32 %r10, %r1, %r2, %r3;", 'r', 0x3f800001, 0x3f800001, 0xbf800002, 0x28800000},
    {"div.rn.f32 %r10, %r1, %r2;", 'r', 0x3f800000, 0x40400000, 0, 0x3eaaaaab},
    {"rcp.rn.f32 %r10, %r1;", 'r', 0x40400000, 0, 0, 0x3eaaaaab},
    {"sqrt.rn.f32 %r10, %r1;", 'r', 0x40000000, 0, 0, 0x3fb504f3},
    {"sqrt.rn.f32 %r10, %r1;", 'r', 0xbf800000, 0, 0, 0x7fffffff},
    {"max.f32 %r10, %r1, %r2;", 'r', 0x7fc00000, 0x3f800000, 0, 0x3f800000},
    {"max.f32 %r10, %r1, %r2;", 'r', 0x7fc00000, 0xffc00001, 0, 0x7fffffff},
    {"max.NaN.f32 %r10, %r1, %r2;", 'r', 0x7f800001, 0x3f800000, 0, 0x7fffffff},
    {"max.f32 %r10, %r1, %r2;", 'r', 0x80000000, 0, 0, 0},
    {"min.f32 %r10, %r1, %r2;", 'r', 0, 0x80000000, 0, 0x80000000},
    {"max.NaN.f32 %r10, %r1, %r2;", 'r', 0x80000000, 0, 0, 0},
    {"min.NaN.f32 %r10, %r1, %r2;", 'r', 0xc0000000, 0xc0400000, 0, 0xc0400000},
    {"abs.f32 %r10, %r1;", 'r', 0xc0000000, 0, 0, 0x40000000},
    {"neg.f32 %r10, %r1;", 'r', 0x40000000, 0, 0, 0xc0000000},
    {"copysign.f32 %r10, %r1, %r2;", 'r', 0xbf800000, 0x40000000, 0, 0xc0000000},
    {"add.rz.f32 %r10, %r1, %r2;", 'r', 0x3f800001, 0x33800001, 0, 0x3f800001},
    {"mul.rz.f32 %r10, %r1, %r2;", 'r', 0x3f800001, 0x3f800001, 0, 0x3f800002},
    {"mul.rn.ftz.f32 %r10, %r1, %r2;", 'r', 0x80000001, 0x3f800000, 0, 0x80000000},
    {"add.rn.f64 %l10, %l1, %l2;", 'l', 0x3ff8000000000000, 0x4004000000000000, 0,
     0x4010000000000000},
    {"mul.rn.f64 %l10, %l1, %l2;", 'l', 0x3fd5555555555555, 0x4008000000000000, 0,
     0x3ff0000000000000},
    {"fma.rn.f64 %l10, %l1, %l2, %l3;", 'l', 0x4000000000000000, 0x4008000000000000,
     0x4010000000000000, 0x4024000000000000},
};

/* bf16 and f16. */
static const row_t half_rows[] = {
    {"max.NaN.bf16x2 %r10, %r1, %r2;", 'r', 0x7fc03f80, 0x3f80bf80, 0, 0x7fff3f80},
    {"max.bf16x2 %r10, %r1, %r2;", 'r', 0x7fc08000, 0x3f800000, 0, 0x3f800000},
    {"min.f16x2 %r10, %r1, %r2;", 'r', 0x3c00bc00, 0x40003c00, 0, 0x3c00bc00},
    {"add.rn.bf16x2 %r10, %r1, %r2;", 'r', 0x3f804000, 0x3f804040, 0, 0x400040a0},
    {"add.rn.bf16 %h10, %h1, %h2;", 'h', 0x3f80, 0x3b80, 0, 0x3f80},
    {"add.rn.bf16 %h10, %h1, %h2;", 'h', 0x3f81, 0x3b80, 0, 0x3f82},
    {"mul.rn.bf16 %h10, %h1, %h2;", 'h', 0x3f81, 0x3f81, 0, 0x3f82},
    {"fma.rn.bf16 %h10, %h1, %h2, %h3;", 'h', 0x3f81, 0x3f81, 0xbf82, 0x3880},
    {"fma.rn.f16x2 %r10, %r1, %r2, %r3;", 'r', 0x3c013c00, 0x3c014000, 0xbc023c00, 0x104200},
    {"add.rn.f16 %h10, %h1, %h2;", 'h', 0x7bff, 0x7bff, 0, 0x7c00},
    {"sub.rn.f16x2 %r10, %r1, %r2;", 'r', 0x10002, 0x20001, 0, 0x80010001},
    {"abs.bf16x2 %r10, %r1;", 'r', 0xbf80c000, 0, 0, 0x3f804000},
    {"neg.f16 %h10, %h1;", 'h', 0x3c00, 0, 0, 0xbc00},
    {"fma.rn.bf16 %h10, %h1, %h2, %h3;", 'h', 0x3f80, 0x3fc0, 1, 0x3fc0},
};

/* Conversions. */
static const row_t convert_rows[] = {
    {"cvt.rn.satfinite.e4m3x2.f32 %h10, %r1, %r2;", 'h', 0x43e00000, 0x3f800000, 0, 0x7e38},
    {"cvt.rn.satfinite.e4m3x2.f32 %h10, %r1, %r2;", 'h', 0x4e6e6b28, 0xbb000000, 0, 0x7e81},
    {"cvt.rn.satfinite.e4m3x2.f32 %h10, %r1, %r2;", 'h', 0x7fc00000, 0x41880000, 0, 0x7f58},
    {"cvt.rn.satfinite.e5m2x2.f32 %h10, %r1, %r2;", 'h', 0xc7600000, 0x3f900000, 0, 0xfb3c},
    {"cvt.rn.satfinite.e5m2x2.f32 %h10, %r1, %r2;", 'h', 0x7f800000, 0xffc00000, 0, 0x7b7f},
    {"cvt.rn.f16x2.e4m3x2 %r10, %h1;", 'r', 0x7e38, 0, 0, 0x5f003c00},
    {"cvt.rn.f16x2.e5m2x2 %r10, %h1;", 'r', 0xfb3c, 0, 0, 0xfb003c00},
    {"cvt.rn.satfinite.e4m3x2.f16x2 %h10, %r1;", 'h', 0x5f003c00, 0, 0, 0x7e38},
    {"cvt.rn.bf16x2.f32 %r10, %r1, %r2;", 'r', 0x3f800000, 0x3f808000, 0, 0x3f803f80},
    {"cvt.rn.bf16x2.f32 %r10, %r1, %r2;", 'r', 0x7f800001, 0x3f818000, 0, 0x7fff3f82},
    {"cvt.rn.f16x2.f32 %r10, %r1, %r2;", 'r', 0x477ff000, 0x33000000, 0, 0x7c000000},
    {"cvt.rn.f16.f32 %h10, %r1;", 'h', 0x33000001, 0, 0, 1},
    {"cvt.rn.f16.f32 %h10, %r1;", 'h', 0x3f801000, 0, 0, 0x3c00},
    {"cvt.rn.bf16.f32 %h10, %r1;", 'h', 0xc0400000, 0, 0, 0xc040},
    {"cvt.f32.bf16 %r10, %h1;", 'r', 0xc040, 0, 0, 0xc0400000},
    {"cvt.f32.f16 %r10, %h1;", 'r', 1, 0, 0, 0x33800000},
    {"cvt.f64.f32 %l10, %r1;", 'l', 0x3fc00000, 0, 0, 0x3ff8000000000000},
    {"cvt.rn.f32.f64 %r10, %l1;", 'r', 0x3fb999999999999a, 0, 0, 0x3dcccccd},
    {"cvt.rn.f32.s32 %r10, %r1;", 'r', 0xfffffffffeffffff, 0, 0, 0xcb800000},
    {"cvt.rn.f32.u32 %r10, %r1;", 'r', 0xffffffff, 0, 0, 0x4f800000},
    {"cvt.rz.f32.u32 %r10, %r1;", 'r', 0xffffffff, 0, 0, 0x4f7fffff},
    {"cvt.rn.f32.u64 %r10, %l1;", 'r', 0x8000000000000000, 0, 0, 0x5f000000},
    {"cvt.rn.f32.u8 %r10, %r1;", 'r', 0x1ff, 0, 0, 0x437f0000},
    {"cvt.rn.f32.s16 %r10, %h1;", 'r', 0xfffe, 0, 0, 0xc0000000},
    {"cvt.rzi.s32.f32 %r10, %r1;", 'r', 0xc039999a, 0, 0, 0xfffffffe},
    {"cvt.rni.s32.f32 %r10, %r1;", 'r', 0x40200000, 0, 0, 2},
    {"cvt.rmi.s32.f32 %r10, %r1;", 'r', 0xc0066666, 0, 0, 0xfffffffd},
    {"cvt.rpi.s32.f32 %r10, %r1;", 'r', 0x40066666, 0, 0, 3},
    {"cvt.rzi.u32.f32 %r10, %r1;", 'r', 0xbf800000, 0, 0, 0},
    {"cvt.rzi.s32.f32 %r10, %r1;", 'r', 0x501502f9, 0, 0, 0x7fffffff},
    {"cvt.rzi.s32.f32 %r10, %r1;", 'r', 0x7fc00000, 0, 0, 0},
    {"cvt.rzi.u64.f32 %l10, %r1;", 'l', 0x53800000, 0, 0, 0x10000000000},
    {"cvt.rni.f32.f32 %r10, %r1;", 'r', 0x40600000, 0, 0, 0x40800000},
    {"cvt.u64.u32 %l10, %r1;", 'l', 0x89abcdef, 0, 0, 0x89abcdef},
    {"cvt.s64.s32 %l10, %r1;", 'l', 0x89abcdef, 0, 0, 0xffffffff89abcdef},
    {"cvt.u32.u64 %r10, %l1;", 'r', 0x89abcdef01234567, 0, 0, 0x1234567},
    {"cvt.s32.s8 %r10, %r1;", 'r', 0x180, 0, 0, 0xffffff80},
    {"cvt.u32.u16 %r10, %h1;", 'r', 0x89ab, 0, 0, 0x89ab},
    {"cvt.s32.s16 %r10, %h1;", 'r', 0x89ab, 0, 0, 0xffff89ab},
    {"cvt.u16.u32 %h10, %r1;", 'h', 0x89abcdef, 0, 0, 0xcdef},
    {"cvt.sat.u8.s32 %r10, %r1;", 'r', 0xfffffffffffffffb, 0, 0, 0},
    {"cvt.sat.s8.s32 %r10, %r1;", 'r', 0x12c, 0, 0, 0x7f},
};

static void run_row(const row_t *row) {
  char body[512];
  static const struct {
    char result;
    const char *store;
  } stores[] = {
      {'h', "cvt.u64.u16 %l20, %h10;"},
      {'r', "cvt.u64.u32 %l20, %r10;"},
      {'l', "mov.b64 %l20, %l10;"},
      {'p', "selp.b64 %l20, 1, 0, %p10;"},
  };
  const char *store = NULL;
  for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++) {
    if (stores[i].result == row->result)
      store = stores[i].store;
  }
  snprintf(body, sizeof body, "%s\n%s\nst.global.b64 [%%out], %%l20;", row->instruction, store);
  const uint64_t in[3] = {row->a, row->b, row->c};
  uint64_t out[1] = {0};
  emu_expect_ok(&(emu_kernel_t){.body = body, .loads_sources = true, .threads = 1}, in, sizeof in,
                out, sizeof out);
  if (out[0] != row->expected)
    fail_msg("%s with 0x%" PRIx64 ", 0x%" PRIx64 ", 0x%" PRIx64 ": got 0x%" PRIx64
             ", expected 0x%" PRIx64,
             row->instruction, row->a, row->b, row->c, out[0], row->expected);
}

#define RUN_ROWS(family)                                                                           \
  static void test_##family(void **state) {                                                        \
    (void)state;                                                                                   \
    for (size_t i = 0; i < sizeof family##_rows / sizeof family##_rows[0]; i++)                    \
      run_row(&family##_rows[i]);                                                                  \
  }

RUN_ROWS(integer)
RUN_ROWS(bits)
RUN_ROWS(compare)
RUN_ROWS(float)
RUN_ROWS(half)
RUN_ROWS(convert)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_integer), cmocka_unit_test(test_bits), cmocka_unit_test(test_compare),
      cmocka_unit_test(test_float),   cmocka_unit_test(test_half), cmocka_unit_test(test_convert),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
