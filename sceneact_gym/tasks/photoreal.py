"""The real look of Dynamic's second condition: surfaces, sky, sun, ground to the horizon and haze.

It changes the trusted renderer's scene only; shapes, places and motion stay as they are.
"""

from __future__ import annotations

from typing import Any

SETTINGS: dict[str, Any] = {"transparent": False, "view_transform": "Standard", "denoise": True}
"""What is other than in plain references."""

CODE = '''
import bpy, math

# Per kind of surface, by the beginning of its material's name: size of the grain in metres, how much the colour varies
# with it, depth of its bumps in metres, roughness, and a factor on the colour.
KINDS = {
    "grass": (0.12, 0.65, 0.06, 0.95, (0.8, 0.78, 0.6)),
    "leaf": (0.16, 0.6, 0.12, 0.85, (0.55, 0.65, 0.5)),
    "needle": (0.12, 0.6, 0.14, 0.9, (0.6, 0.7, 0.6)),
    "earth": (0.2, 0.5, 0.05, 0.95, (0.8, 0.72, 0.62)),
    "sand": (0.15, 0.35, 0.03, 0.95, (0.95, 0.9, 0.8)),
    "asphalt": (0.05, 0.5, 0.01, 0.85, (0.75, 0.75, 0.75)),
    "concrete": (0.3, 0.3, 0.01, 0.8, (0.8, 0.8, 0.78)),
    "sky": (0.4, 0.3, 0.01, 0.7, (0.8, 0.85, 0.85)),
    "marking": (0.08, 0.3, 0.0, 0.8, (0.85, 0.85, 0.85)),
    "stone": (0.25, 0.55, 0.06, 0.9, (0.8, 0.78, 0.75)),
    "slate": (0.2, 0.5, 0.03, 0.8, (0.8, 0.8, 0.8)),
    "brick": (0.15, 0.6, 0.03, 0.85, (0.85, 0.75, 0.7)),
    "plaster": (0.4, 0.25, 0.01, 0.9, (0.9, 0.9, 0.88)),
    "wall": (0.3, 0.35, 0.02, 0.9, (0.85, 0.82, 0.8)),
    "wood": (0.1, 0.5, 0.02, 0.7, (0.75, 0.7, 0.65)),
    "plank": (0.1, 0.45, 0.02, 0.7, (0.8, 0.75, 0.7)),
    "bark": (0.08, 0.6, 0.06, 0.95, (0.8, 0.8, 0.8)),
    "sail": (0.3, 0.12, 0.01, 0.9, (0.95, 0.95, 0.92)),
    "rubber": (0.05, 0.4, 0.0, 0.9, (0.6, 0.6, 0.6)),
    "water": (1.6, 0.15, 0.09, 0.08, (0.28, 0.36, 0.34)),
}
HAZE = (0.5, 0.6, 0.72)
REACH = 600.0  # metres after which haze covers most of a thing


def kind_of(material):
    for name, row in KINDS.items():
        if material.name.startswith(name):
            return row
    return None


def link(tree, source, target):
    tree.links.new(source, target)


def dress(material):
    """Grain, bumps and haze around the colour that the material has."""
    tree = material.node_tree
    surface = next((node for node in tree.nodes if node.type == "BSDF_PRINCIPLED"), None)
    output = next((node for node in tree.nodes if node.type == "OUTPUT_MATERIAL"), None)
    if surface is None or output is None:
        return
    color = surface.inputs["Base Color"]
    row = kind_of(material)
    if row and not color.is_linked:
        size, varies, depth, roughness, factor = row
        base = [value * f for value, f in zip(color.default_value, factor)]
        place = tree.nodes.new("ShaderNodeTexCoord")
        fine, coarse = tree.nodes.new("ShaderNodeTexNoise"), tree.nodes.new("ShaderNodeTexNoise")
        for noise, scale, detail in ((fine, 1 / size, 2.0), (coarse, 0.35 / size ** 0.5, 1.0)):
            noise.inputs["Scale"].default_value = scale
            noise.inputs["Detail"].default_value = detail
            link(tree, place.outputs["Object"], noise.inputs["Vector"])
        both = tree.nodes.new("ShaderNodeMath")
        both.operation = "MULTIPLY_ADD"
        both.inputs[1].default_value = 0.6
        link(tree, fine.outputs[0], both.inputs[0])
        less = tree.nodes.new("ShaderNodeMath")
        less.operation = "MULTIPLY"
        less.inputs[1].default_value = 0.4
        link(tree, coarse.outputs[0], less.inputs[0])
        link(tree, less.outputs[0], both.inputs[2])
        ramp = tree.nodes.new("ShaderNodeValToRGB")
        ramp.color_ramp.elements[0].position, ramp.color_ramp.elements[1].position = 0.3, 0.7
        ramp.color_ramp.elements[0].color = [*(max(0.0, v * (1 - varies)) for v in base), 1.0]
        ramp.color_ramp.elements[1].color = [*(min(1.0, v * (1 + 0.6 * varies)) for v in base), 1.0]
        link(tree, both.outputs[0], ramp.inputs[0])
        link(tree, ramp.outputs[0], color)
        surface.inputs["Roughness"].default_value = roughness
        if depth:
            bump = tree.nodes.new("ShaderNodeBump")
            bump.inputs["Strength"].default_value = 0.7
            bump.inputs["Distance"].default_value = depth
            link(tree, fine.outputs[0], bump.inputs["Height"])
            link(tree, bump.outputs[0], surface.inputs["Normal"])
    elif material.name.startswith("paint") and "Coat Weight" in surface.inputs:
        surface.inputs["Coat Weight"].default_value = 0.8
        surface.inputs["Coat Roughness"].default_value = 0.05
    distance, path = tree.nodes.new("ShaderNodeCameraData"), tree.nodes.new("ShaderNodeLightPath")
    decay = tree.nodes.new("ShaderNodeMath")
    decay.operation = "DIVIDE"
    decay.inputs[1].default_value = -REACH
    power = tree.nodes.new("ShaderNodeMath")
    power.operation = "POWER"
    power.inputs[0].default_value = math.e
    share = tree.nodes.new("ShaderNodeMath")
    share.operation = "SUBTRACT"
    share.inputs[0].default_value = 1.0
    seen = tree.nodes.new("ShaderNodeMath")
    seen.operation = "MULTIPLY"
    haze, mix = tree.nodes.new("ShaderNodeEmission"), tree.nodes.new("ShaderNodeMixShader")
    haze.inputs["Color"].default_value = (*HAZE, 1.0)
    link(tree, distance.outputs["View Distance"], decay.inputs[0])
    link(tree, decay.outputs[0], power.inputs[1])
    link(tree, power.outputs[0], share.inputs[1])
    link(tree, share.outputs[0], seen.inputs[0])
    link(tree, path.outputs["Is Camera Ray"], seen.inputs[1])
    link(tree, seen.outputs[0], mix.inputs[0])
    link(tree, surface.outputs[0], mix.inputs[1])
    link(tree, haze.outputs[0], mix.inputs[2])
    link(tree, mix.outputs[0], output.inputs["Surface"])


def spread_ground(scene):
    """A plane to the horizon, just below the top of the largest slab and made of the same."""
    best, where = 0.0, None
    for thing in scene.objects:
        if thing.type == "MESH" and thing.animation_data is None:
            x, y, z = thing.dimensions
            if x * y > best and z < 0.2 * min(x, y):
                best, where = x * y, thing
    if where is None:
        return
    top = max((where.matrix_world @ vertex.co).z for vertex in where.data.vertices)
    mesh = bpy.data.meshes.new("horizon")
    r = 3000.0
    mesh.from_pydata([(-r, -r, 0), (r, -r, 0), (r, r, 0), (-r, r, 0)], [], [(0, 1, 2, 3)])
    if where.data.materials:
        mesh.materials.append(where.data.materials[0])
    plane = bpy.data.objects.new("horizon", mesh)
    plane.location.z = top - 0.03
    scene.collection.objects.link(plane)


scene = bpy.context.scene
spread_ground(scene)
for material in list(bpy.data.materials):
    if material.node_tree:
        dress(material)
tree = scene.world.node_tree
background = next(node for node in tree.nodes if node.type == "BACKGROUND")
sky = tree.nodes.new("ShaderNodeTexSky")
# An analytic sky: the scattering models would compute their table anew with every picture, which takes seconds.
sky.sky_type = "HOSEK_WILKIE"
sky.turbidity, sky.ground_albedo = 2.6, 0.3
sky.sun_direction = (0.5, -0.45, 0.74)
link(tree, sky.outputs[0], background.inputs["Color"])
background.inputs["Strength"].default_value = 0.6
scene.world.cycles.sampling_method = "AUTOMATIC"
for light in bpy.data.lights:
    if light.type == "SUN":
        light.energy, light.color, light.angle = 5.5, (1.0, 0.93, 0.82), math.radians(0.8)
'''
"""Code for Blender that changes a plain scene into one with the real look."""
